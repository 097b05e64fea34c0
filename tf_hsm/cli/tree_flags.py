"""The arguments of `python -m tf_hsm tree`."""

import textwrap

from tf_hsm.cli.parser import add_command, add_flags
from tf_hsm.tree.builders.adaptive import ADAPTIVE
from tf_hsm.tree.builders.balanced import BALANCED, FLAT, TWO_LEVEL
from tf_hsm.tree.builders.data import DATA
from tf_hsm.tree.builders.embeddings import EMBEDDINGS
from tf_hsm.tree.builders.huffman import HUFFMAN
from tf_hsm.tree.builders.paths import PATHS

# By name, in the order of the help text.
KINDS = {
    kind.name: kind
    for kind in (
        TWO_LEVEL,
        BALANCED,
        FLAT,
        HUFFMAN,
        ADAPTIVE,
        DATA,
        EMBEDDINGS,
        PATHS,
    )
}
COMPARED = ["two_level", "balanced:100", "huffman", "huffman:256", "adaptive"]
EXAMPLES = """
examples:
  python -m tf_hsm tree compare --counts=words.txt --batch=2048 --width=256
  python -m tf_hsm tree build huffman:256 --counts=words.txt --output=tree.npz
  python -m tf_hsm tree compare --data=examples.npz
  python -m tf_hsm tree build data --data=examples.npz --output=tree.npz
  python -m tf_hsm tree build paths:labels.txt --output=tree.npz
  python -m tf_hsm tree build embeddings:vectors.npy --output=tree.npz
  python -m tf_hsm tree inspect tree.npz --counts=words.txt
  python -m tf_hsm tree plot tree.npz --counts=words.txt --output=tree.png
  python -m tf_hsm tree plan tree.npz --counts=words.txt --replicas=8
"""
# A plan needs one of these two.
_DEVICES = {
    "replicas": "how many replicas there are; each has a shard, and trains the "
    "body on its part of the batch",
    "devices": "how many devices have a shard, beside the device of the body",
}
_PLAN = {
    "top": "about how many subtrees to cut the tree into; %(default)s",
    "slots": "numbers that the optimizer has for each weight; %(default)s",
    "network": "bytes a second into, and out of, the device of the body, or "
    "each replica; %(default)s",
}
# At most one of these two says how many classes there are.
_CLASSES = {
    "counts=FILE": "how often each class occurs: 'count' or 'word count' on "
    "each line, what `uniq -c` writes, or an .npy file; words are the names of "
    "the classes",
    "num_classes=N": "classes, all alike",
}
_STEP = {
    "data=FILE.npz": "training data: an .npz file with the arrays labels and "
    "contexts, which Tree.from_data describes; without --counts the labels are "
    "counted",
    "batch": "examples in a step; %(default)s",
    "width": "of the inputs; %(default)s",
    "calibrate": "predict the time on this machine, after two seconds of "
    "timing",
}
_SETTINGS = {
    **{name: {"type": int} for name in ("replicas", "devices", "num_classes")},
    "top": {"type": int, "default": 256},
    "slots": {"type": int, "default": 1},
    "network": {"type": float, "default": 1.25e9},
    "batch": {"type": int, "default": 1024},
    "width": {"type": int, "default": 512},
    "calibrate": {"action": "store_true"},
}


def add(commands):
    """Adds `tree` to the parsers of the program; returns its parser.

    The flags that it reads have a `command`, and the flags of the command.
    """
    tree = add_command(
        commands, "tree", "builds, inspects, compares and draws trees"
    )
    tree.epilog = EXAMPLES
    commands = tree.add_subparsers(
        required=True, dest="command", metavar="command"
    )

    for name, text, output in (
        ("build", "builds a tree and saves it", "the .npz file to write"),
        ("inspect", "says how large a tree is and what it costs", None),
        ("compare", "compares what trees cost and how they fit data", None),
        (
            "plot",
            "draws a tree (needs matplotlib)",
            "the .png, .svg or .pdf file to write",
        ),
        ("plan", "says what devices have where they share a tree", None),
    ):
        command = add_command(commands, name, text)
        if name == "compare":
            command.add_argument(
                "trees",
                nargs="*",
                help=f"see below; by default {' '.join(COMPARED)}, and data "
                "with --data",
            )
        else:
            command.add_argument("tree", help="see below")
        if output is not None:
            command.add_argument("--output", required=True, help=output)
        if name == "plan":
            group = command.add_mutually_exclusive_group(required=True)
            add_flags(group, _DEVICES, _SETTINGS)
            add_flags(command, _PLAN, _SETTINGS)
        group = command.add_mutually_exclusive_group()
        add_flags(group, _CLASSES, _SETTINGS)
        add_flags(command, _STEP, _SETTINGS)
        for kind in KINDS.values():
            for flag in kind.flags:
                command.add_argument(f"--{flag.name}", **flag.settings)
        command.epilog = _kinds() + EXAMPLES
    return tree


def _kinds():
    """Returns the help on the texts that name a tree."""
    lines = ["a tree is an .npz file that `build` wrote, or one of"]
    for kind in KINDS.values():
        for text, meaning in kind.help.items():
            # The texts are two columns, 25 and 52 characters wide.
            first, *others = textwrap.wrap(meaning, 52)
            lines.append(f"  {text:25}{first}")
            lines += [" " * 27 + line for line in others]
    return "\n".join(lines) + "\n"
