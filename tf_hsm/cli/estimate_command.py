"""`python -m tf_hsm estimate`: what a model will need."""

import json
import os
import sys

from tf_hsm import estimation
from tf_hsm._units import of_bytes, short
from tf_hsm.cli.parser import add_command
from tf_hsm.estimation import machine_calibration
from tf_hsm.estimation.inverse import find
from tf_hsm.estimation.report import table
from tf_hsm.tree import Tree
from tf_hsm.tree.class_files import read_counts

EXAMPLE = """\
  python -m tf_hsm estimate --num_classes=10M --width=300 --batch=400 \\
      --head_optimizer=rowwise_adagrad
  python -m tf_hsm estimate --model=model.keras --batch=64 --memory=24GB
"""
_TREES = ("hierarchical", "label_tree")  # heads that --tree is for
_HELP = """
Says what training a model needs, before it is made: parameters, gradients,
slots of the optimizer, memory at its peak, FLOPs, and time.
"""


def add(commands):
    """Adds `estimate` to the parsers of the program; returns its parser."""
    command = add_command(
        commands, "estimate", "says what training a model will need"
    )
    command.description = _HELP.strip()
    _add_model(command)
    _add_step(command)
    _add_answer(command)
    command.epilog = f"examples:\n{EXAMPLE}"
    return command


def _add_model(command):
    model = command.add_argument_group("the model")
    model.add_argument(
        "--model",
        metavar="FILE",
        help="a saved Keras model, .keras, which may contain its head",
    )
    model.add_argument(
        "--body",
        metavar="TEXT",
        help="lstm:2x2048, gru:512, rnn:256, transformer:6x512:8 (layers, "
        "width, attention heads) or embedding:300; none: a head alone",
    )
    model.add_argument(
        "--vocabulary",
        metavar="N",
        help="rows of an embedding before the body; none by default",
    )
    model.add_argument(
        "--num_classes", metavar="N", help="of the head, such as 10M"
    )
    model.add_argument(
        "--heads",
        metavar="NAME,...",
        help="hierarchical (the default), label_tree, adaptive, full, sampled, "
        "gather, embedding_lookup, map_fn; several are compared",
    )
    model.add_argument(
        "--tree",
        metavar="FILE",
        help="of the head, instead of --num_classes: for hierarchical (the "
        "default) and label_tree",
    )
    model.add_argument(
        "--counts",
        metavar="FILE",
        help="how often each class occurs, as for `tree build`; or zipf; "
        "else all alike",
    )
    model.add_argument(
        "--width",
        type=int,
        help="of the head's inputs; by default that of the body",
    )


def _add_step(command):
    step = command.add_argument_group("the step")
    step.add_argument(
        "--batch", type=int, help="sequences in a step, or examples"
    )
    step.add_argument("--length", type=int, help="of a sequence; 1 by default")
    step.add_argument(
        "--dtype",
        help="float32, bfloat16, mixed_bfloat16, ...; by default that of the "
        "model, or float32",
    )
    step.add_argument(
        "--optimizer",
        default="lazy_adam",
        help="of the model: lazy_adam, adam, sgd, ...; %(default)s",
    )
    step.add_argument(
        "--head_optimizer",
        metavar="NAME",
        help="with which a tree's head, or an adaptive one, updates its own "
        "weights in place: sgd, adagrad, rowwise_adagrad or lazy_adam",
    )
    step.add_argument(
        "--replicas",
        type=int,
        default=1,
        help="devices that train copies, each on its part of a batch; "
        "%(default)s",
    )
    step.add_argument(
        "--shards",
        type=int,
        help="devices over which a tree's head is cut by subtree",
    )
    step.add_argument(
        "--network",
        default="1.25GB",
        metavar="BYTES",
        help="a second into each of these devices, and out of it; %(default)s",
    )
    step.add_argument(
        "--labels_per_example",
        type=float,
        default=1,
        metavar="N",
        help="of a head of tf_hsm.layers, in the mean; %(default)s",
    )


def _add_answer(command):
    answer = command.add_argument_group("the answer")
    answer.add_argument(
        "--memory", metavar="BYTES", help="that there is, such as 24GB"
    )
    answer.add_argument(
        "--machine",
        help="a name, `list` for all of them, or `here`, which measures for "
        "ten seconds; by default what was measured here earlier, else a "
        "measurement of a second",
    )
    answer.add_argument(
        "--corpus_tokens",
        metavar="N",
        help="labels in an epoch, such as 100M",
    )
    answer.add_argument(
        "--largest",
        choices=["batch", "length", "width", "num_classes"],
        help="find the largest that fits into --memory, instead of giving it",
    )
    answer.add_argument(
        "--json", action="store_true", help="print JSON instead of a table"
    )
    answer.add_argument(
        "--plot", metavar="FILE", help="draw it: a .svg, .png or .pdf file"
    )


def run(flags):
    """Prints the estimate that the flags ask for.

    Raises:
      ValueError: flags are missing, or say what cannot be.
      OSError: a file cannot be read or written.
      ImportError: `--plot` without matplotlib.
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
    found = estimation.estimate(body, head, **arguments)
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
    if flags.plot:
        found.plot(flags.plot)


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
        "machine": _machine(flags.machine),
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


def _machine(given):
    """The machine of the flag; without one this machine is measured."""
    if given is not None:
        return given
    return machine_calibration.cached() or machine_calibration.quick()


def _check_take_trees(names):
    for name in names:
        if name not in _TREES:
            raise ValueError(
                f"--tree and --heads: {name!r} cannot be estimated for a tree "
                f"from a file, only {' and '.join(_TREES)}; leave it out, or "
                "give --num_classes instead of --tree"
            )


def _on_tree(names, tree, arguments):
    """Returns the heads of a tree; takes what is theirs out of arguments."""
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
