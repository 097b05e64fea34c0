"""The arguments of `python -m tf_hsm estimate`."""

from tf_hsm.cli.parser import add_command, add_flags

EXAMPLE = """\
  python -m tf_hsm estimate --num_classes=10M --width=300 --batch=400 \\
      --head_optimizer=rowwise_adagrad
  python -m tf_hsm estimate --model=model.keras --batch=64 --memory=24GB
"""
_HELP = """
Says what training a model needs, before it is made: parameters, gradients,
slots of the optimizer, memory at its peak, FLOPs, and time.
"""


_FLAGS = {
    "the model": {
        "model=FILE": "a saved Keras model, .keras, which may contain its head",
        "body=TEXT": "lstm:2x2048, gru:512, rnn:256, transformer:6x512:8 "
        "(layers, width, attention heads) or embedding:300; none: a head alone",
        "vocabulary=N": "rows of an embedding before the body; none by default",
        "num_classes=N": "of the head, such as 10M",
        "heads=NAME,...": "hierarchical (the default), label_tree, adaptive, "
        "full, sampled, gather, embedding_lookup, map_fn; several are compared",
        "tree=FILE": "of the head, instead of --num_classes: for hierarchical "
        "(the default) and label_tree",
        "counts=FILE": "how often each class occurs, as for `tree build`; or "
        "zipf; else all alike",
        "width": "of the head's inputs; by default the width of the body",
    },
    "the step": {
        "batch": "sequences in a step, or examples",
        "length": "of a sequence; 1 by default",
        "dtype": "float32, bfloat16, mixed_bfloat16, ...; by default that of "
        "the model, or float32",
        "optimizer": "of the model: lazy_adam, adam, sgd, ...; %(default)s",
        "head_optimizer=NAME": "with which a tree's head, or an adaptive one, "
        "updates its own weights in place: sgd, adagrad, rowwise_adagrad, "
        "rmsprop, lazy_adam or lion",
        "replicas": "devices that train copies, each on its part of a batch; "
        "%(default)s",
        "shards": "devices over which a tree's head is cut by subtree; with "
        "--replicas of the same number, the replicas have the shards",
        "network=BYTES": "a second into each of these devices, and out of it; "
        "%(default)s",
        "labels_per_example=N": "of a head of tf_hsm.layers, in the mean; "
        "%(default)s",
    },
    "the answer": {
        "memory=BYTES": "that there is, such as 24GB",
        "machine": "a name, `list` for all of them, or `here`, which measures "
        "for two seconds; by default a CPU of two cores",
        "corpus_tokens=N": "labels in an epoch, such as 100M",
        "largest": "find the largest that fits into --memory, instead of "
        "giving it",
        "json": "print JSON instead of a table",
    },
}
_SETTINGS = {
    **{name: {"type": int} for name in ("width", "batch", "length", "shards")},
    "optimizer": {"default": "lazy_adam"},
    "replicas": {"type": int, "default": 1},
    "network": {"default": "1.25GB"},
    "labels_per_example": {"type": float, "default": 1},
    "largest": {"choices": ["batch", "length", "width", "num_classes"]},
    "json": {"action": "store_true"},
}


def add(commands):
    """Adds `estimate` to the parsers of the program; returns its parser."""
    command = add_command(
        commands, "estimate", "says what training a model will need"
    )
    command.description = _HELP.strip()
    for title, flags in _FLAGS.items():
        add_flags(command.add_argument_group(title), flags, _SETTINGS)
    command.epilog = f"examples:\n{EXAMPLE}"
    return command
