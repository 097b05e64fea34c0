"""`python -m tf_hsm estimate`: the memory and time that a model needs."""

import json
import os
import sys

from tf_hsm import estimation
from tf_hsm._units import of_bytes, short, table
from tf_hsm.estimation.api import estimate
from tf_hsm.estimation.inverse import find
from tf_hsm.tree import Tree
from tf_hsm.tree.class_files import read_counts

_TREES = ("hierarchical", "label_tree")  # heads that --tree is for
# Flags whose values are arguments of `estimate`.
_ARGUMENTS = (
    *("batch", "length", "width", "num_classes", "vocabulary", "dtype"),
    *("optimizer", "head_optimizer", "corpus_tokens", "memory", "machine"),
    *("replicas", "shards", "network", "labels_per_example"),
)


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
    if flags.largest and flags.memory is None:
        raise ValueError("--largest needs --memory")
    if flags.batch is None:
        if flags.largest != "batch":
            raise ValueError("--batch is missing")
        del arguments["batch"]
    if flags.largest:
        memory = arguments.pop("memory")
        value, found = find(body, head, memory, flags.largest, arguments)
    else:
        found = estimate(body, head, **arguments)
    if flags.json:
        more = {"largest": value} if flags.largest else {}
        json.dump({**found.to_dict(), **more}, sys.stdout, indent=2)
        print()
        return
    if flags.largest:
        print(f"the largest {flags.largest} is {value:,}\n")
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
    arguments = {name: getattr(flags, name) for name in _ARGUMENTS}
    if flags.optimizer == "none":
        arguments["optimizer"] = None
    for name in names if flags.tree is not None else ():
        if name not in _TREES:
            raise ValueError(
                f"--tree and --heads: {name!r} cannot be estimated for a tree "
                f"from a file, only {' and '.join(_TREES)}; leave it out, or "
                "give --num_classes instead of --tree"
            )
    if flags.counts is not None:
        arguments["counts"] = (
            "zipf" if flags.counts == "zipf" else read_counts(flags.counts)[0]
        )
    if flags.tree is not None:
        head = _on_tree(names, Tree.load(flags.tree), arguments)
    return body, head, arguments


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
