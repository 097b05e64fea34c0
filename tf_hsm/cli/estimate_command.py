"""`python -m tf_hsm estimate`: the memory and time that a model needs."""

import json
import os
import sys

from tf_hsm import estimation
from tf_hsm._units import of_bytes, short
from tf_hsm.estimation.api import estimate
from tf_hsm.estimation.inverse import find
from tf_hsm.estimation.report import table
from tf_hsm.tree import Tree
from tf_hsm.tree.class_files import read_counts

_TREES = ("hierarchical", "label_tree")  # heads that --tree is for


def run(flags):
    """Prints the estimate that the flags ask for.

    Raises:
      ValueError: flags are missing, or say what cannot be.
      OSError: a file cannot be read or written.
    """
    if flags.machine == "list":
        print("\n".join(table(map(_machine_row, estimation.machines.values()))))
        return
    body, head, arguments = _arguments(flags)
    if flags.largest:
        _run_largest(flags, body, head, arguments)
        return
    if flags.batch is None:
        raise ValueError("--batch is missing")
    found = estimate(body, head, **arguments)
    _write(flags, found)


def _run_largest(flags, body, head, arguments):
    if flags.memory is None:
        raise ValueError("--largest needs --memory")
    if flags.batch is None and flags.largest != "batch":
        raise ValueError("--batch is missing")
    memory = arguments.pop("memory")
    value, found = find(body, head, memory, flags.largest, arguments)
    if not flags.json:
        print(f"the largest {flags.largest} is {value:,}\n")
    _write(flags, found, largest=value)


def _write(flags, found, **more):
    if flags.json:
        json.dump({**found.to_dict(), **more}, sys.stdout, indent=2)
        print()
    else:
        print(found)


def _arguments(flags):
    """Returns body, head and the other arguments of `estimate`."""
    body, head, names = flags.body, None, [_TREES[0]]
    if flags.model is not None:
        if body is not None:
            raise ValueError("--model and --body both say what the body is")
        body = _load(flags.model)
    if flags.heads is not None:
        names = flags.heads.split(",")
        head = names if len(names) > 1 else names[0]
    arguments = {
        "batch": flags.batch,
        "length": flags.length,
        "width": flags.width,
        "num_classes": flags.num_classes,
        "vocabulary": flags.vocabulary,
        "dtype": flags.dtype,
        "optimizer": None if flags.optimizer == "none" else flags.optimizer,
        "head_optimizer": flags.head_optimizer,
        "corpus_tokens": flags.corpus_tokens,
        "memory": flags.memory,
        "machine": flags.machine,
        "replicas": flags.replicas,
        "shards": flags.shards,
        "network": flags.network,
        "labels_per_example": flags.labels_per_example,
    }
    if flags.tree is not None:
        _check_take_trees(names)
    if flags.counts is not None:
        arguments["counts"] = (
            "zipf" if flags.counts == "zipf" else read_counts(flags.counts)[0]
        )
    if flags.tree is not None:
        head = _on_tree(names, Tree.load(flags.tree), arguments)
    if flags.batch is None:
        del arguments["batch"]
    return body, head, arguments


def _check_take_trees(names):
    for name in names:
        if name not in _TREES:
            raise ValueError(
                f"--tree and --heads: {name!r} cannot be estimated for a tree "
                f"from a file, only {' and '.join(_TREES)}; leave it out, or "
                "give --num_classes instead of --tree"
            )


def _on_tree(names, tree, arguments):
    """Returns the heads of a tree; moves their options out of arguments."""
    options = {
        "counts": arguments.pop("counts", None),
        "optimizer": arguments.pop("head_optimizer"),
        "shards": arguments.pop("shards"),
        "network": arguments["network"],
    }
    found = [estimation.head(name, tree, **options) for name in names]
    return found if len(found) > 1 else found[0]


def _machine_row(machine):
    memory = machine.memory
    return {
        "machine": machine.name,
        "float32 FLOP/s": short(machine.rate("float32")).strip(),
        "bfloat16 FLOP/s": short(machine.rate("bfloat16")).strip(),
        "memory/s": of_bytes(machine.read_write),
        "memory": "-" if memory is None else of_bytes(memory),
    }


def _load(path):
    import keras

    if not os.path.exists(path):
        raise FileNotFoundError(2, os.strerror(2), path)
    return keras.models.load_model(path, compile=False)
