"""`python -m tf_hsm tree`: builds, inspects, compares and draws trees."""

import contextlib
import os
import sys
import threading
import time

import numpy as np

from tf_hsm import _start
from tf_hsm._units import digits, table
from tf_hsm.cli.tree_flags import COMPARED, KINDS
from tf_hsm.tree import Tree
from tf_hsm.tree.builders.kind import Options
from tf_hsm.tree.class_files import read_counts, read_examples
from tf_hsm.tree.data.reading import label_counts
from tf_hsm.tree.masses import row_masses

_SECONDS = 3  # between two lines of progress
_BY_DEPTH = """\
The trees are in the order of their mean depth, which is how many decisions a
label takes: with fewer decisions a model usually fits better after equal steps
(docs/trees.md). The predicted time says nothing of fit. With --data=FILE.npz
the table has the loss to expect, and the tree `data`, which fits best."""
_BY_LOSS = """\
The trees are in the order of the expected loss. The predicted time says nothing
of fit."""


def run(flags):
    """Runs the command that the flags of `tree_flags` name.

    Raises:
      OSError: a file cannot be read or written.
      ValueError: a text names no tree, or an option does not fit.
    """
    _COMMANDS[flags.command](flags, _options(flags))


def _options(flags):
    counts = words = cost_model = data = None
    if flags.data is not None:
        with _progress(f"reading {flags.data}"):
            data = read_examples(flags.data)
    if flags.counts is not None:
        with _progress(f"reading {flags.counts}"):
            counts, words = read_counts(flags.counts)
    elif data is not None:
        counts = label_counts(data.labels, flags.num_classes)
    if flags.calibrate:
        with _progress("measuring this machine"):
            _start.import_tensorflow()
            from tf_hsm import estimation

            cost_model = estimation.calibrate().cost_model
    return Options(
        counts=counts,
        words=words,
        data=data,
        num_classes=flags.num_classes if counts is None else counts.size,
        batch=flags.batch,
        width=flags.width,
        cost_model=cost_model,
        flags={
            flag.name: flag.convert(getattr(flags, flag.name))
            for kind in KINDS.values()
            for flag in kind.flags
        },
    )


def _build(flags, options):
    tree = _make(flags.tree, options)
    with _progress(f"writing {flags.output}"):
        tree.save(flags.output)
    print(f"{flags.output}: {tree}")


def _inspect(flags, options):
    tree = _make(flags.tree, options)
    with _progress("counting"):
        cost = _cost(tree, options)
    print(tree.summary())
    by = flags.counts or flags.data
    if by is None:
        is_even = tree.counts is None or np.ptp(tree.counts) == 0
        by = "all classes alike" if is_even else "the tree's counts"
    print(f"Cost by {by}")
    for line in str(cost).splitlines():
        print(f"  {line}")


def _compare(flags, options):
    data = options.data
    found = []
    for text in flags.trees or [*COMPARED, *(["data"] if data else [])]:
        tree = _make(text, options)
        with _progress(f"counting {text}"):
            cost = _cost(tree, options)
            counts = tree._counts_or_own(options.counts)
            masses = row_masses(tree._arrays, tree._levels, counts)
        parameters = 4 * tree.num_weight_rows * (options.width + 1)
        # A label's path has each row with its probability.
        fit = depth = float(masses.sum())
        row = {
            "tree": text,
            "rows/example": f"{cost.rows_per_example:,.1f}",
            "mean depth": f"{depth:.2f}",
            "depth": f"{tree.depth:,}",
            "touched rows": f"{cost.touched_rows:,.0f}",
            "parameters": f"{parameters / 2**20:,.1f} MiB",
            "predicted": f"{digits(cost.milliseconds)} ms",
        }
        if data is not None:
            with _progress(f"expecting the loss of {text}"):
                fit = tree.expected_loss(*data)
            row["expected loss"] = f"{fit:.3f} nats"
        found.append((fit, row))
    found.sort(key=lambda entry: entry[0])
    print("\n".join(table(row for _, row in found)))
    if len(found) > 1:
        print(_BY_DEPTH if data is None else _BY_LOSS)


def _plot(flags, options):
    tree = _make(flags.tree, options)
    with _progress(f"drawing {flags.output}"):
        tree.plot(options.counts, path=flags.output)
    print(f"{flags.output}: {tree}")


def _plan(flags, options):
    tree = _make(flags.tree, options)
    with _progress("planning"):
        _start.import_tensorflow()
        from tf_hsm import distribute

        result = distribute.plan(
            tree,
            flags.devices,
            replicas=flags.replicas,
            counts=options.counts,
            batch=options.batch,
            width=options.width,
            top=flags.top,
            slots=flags.slots,
            network=flags.network,
            cost_model=options.cost_model,
        )
        text = str(result)
    print(text)


_COMMANDS = {
    "build": _build,
    "inspect": _inspect,
    "compare": _compare,
    "plot": _plot,
    "plan": _plan,
}


def _make(text, options):
    """Returns the `Tree` that `text` names, as the help says.

    The classes have the words of `options` as names, if the tree has no names
    of its own.

    Raises:
      OSError: a file cannot be read.
      ValueError: the text names no tree, or an option does not fit.
    """
    name, _, value = text.partition(":")
    kind = KINDS.get(name)
    reports = kind is not None and kind.reports
    with contextlib.nullcontext() if reports else _progress(f"making {text}"):
        if kind is not None:
            if kind.needs and not value:
                raise ValueError(f"{name} needs {kind.needs}")
            tree = kind.build(Tree, value, options)
        elif text.endswith(".npz") or os.path.exists(text):
            tree = Tree.load(text)
        else:
            raise ValueError(
                f"{text} is no tree: neither a file nor one of "
                f"{', '.join(KINDS)}"
            )
    if options.num_classes not in (None, tree.num_classes):
        source = "--num_classes" if options.counts is None else "--counts"
        hint = ""
        if options.data is not None:
            source = "--data"
            hint = f"; add --num_classes={tree.num_classes}"
        raise ValueError(
            f"{text} has {tree.num_classes:,} classes, but {source} has "
            f"{options.num_classes:,}{hint}"
        )
    if options.words is not None and tree.names is None:
        tree = tree.with_class_names(options.words)
    return tree


def _cost(tree, options):
    return tree.expected_cost(
        options.counts,
        batch=options.batch,
        width=options.width,
        cost_model=options.cost_model,
    )


@contextlib.contextmanager
def _progress(text):
    """Writes to stderr, every few seconds, a text and the seconds so far."""
    done, start = threading.Event(), time.monotonic()

    def report():
        while not done.wait(_SECONDS):
            seconds = time.monotonic() - start
            print(f"{text} ({seconds:.0f} s)", file=sys.stderr, flush=True)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
