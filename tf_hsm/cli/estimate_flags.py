"""The arguments of `python -m tf_hsm estimate`."""

from tf_hsm.cli.parser import add_command

EXAMPLE = """\
  python -m tf_hsm estimate --num_classes=10M --width=300 --batch=400 \\
      --head_optimizer=rowwise_adagrad
  python -m tf_hsm estimate --model=model.keras --batch=64 --memory=24GB
"""
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
        help="of the head's inputs; by default the width of the body",
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
        "weights in place: sgd, adagrad, rowwise_adagrad, rmsprop, "
        "lazy_adam or lion",
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
        help="devices over which a tree's head is cut by subtree; with "
        "--replicas of the same number, the replicas have the shards",
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
        "two seconds; by default a CPU of two cores",
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
