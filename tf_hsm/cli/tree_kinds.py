"""Trees by the text that names them on the command line."""

import dataclasses
import os

import numpy as np

from tf_hsm.cli import class_files
from tf_hsm.cost.clusters import check_tail
from tf_hsm.cost.model import CostModel
from tf_hsm.tree import Tree

HELP = """\
a tree is an .npz file that `build` wrote, or one of
  two_level                about sqrt(N) groups of sqrt(N) classes
  balanced:K               fanout K; balanced:K,K2,... for one K per level
  huffman, huffman:K       the shortest paths for the counts, fanout K or 2
  adaptive                 frequency clusters, with the best cutoffs for the
                           counts, --batch and --width
  adaptive:C1,C2,...       with these cutoffs
  embeddings:FILE.npy      similar classes together, from vectors [N, D]
  paths:FILE               one path per class, such as animal/cat, on a line"""


@dataclasses.dataclass(frozen=True)
class Options:
    """What beside its text makes a tree.

    Attributes:
      counts: `[N]`, or None.
      words: N strs, the names of the classes, or None.
      num_classes: N, or None where neither counts nor the user say it.
      batch: of the step that "adaptive" minimizes.
      width: of that step.
      cost_model: of that step.
      tail: of "adaptive": "flat", "two_level" or a branching.
      branching: of "embeddings": ints, or None.
      metric: of "embeddings".
      seed: of "embeddings".
    """

    counts: np.ndarray | None = None
    words: list[str] | None = None
    num_classes: int | None = None
    batch: int = 1024
    width: int = 512
    cost_model: CostModel | None = None
    tail: str | int = "flat"
    branching: list[int] | None = None
    metric: str = "cosine"
    seed: int = 0


def make(text, options):
    """Returns the `Tree` that `text` names, as `HELP` says.

    The classes have the words of `options` as names, if the tree has no names
    of its own.

    Raises:
      OSError: a file cannot be read.
      ValueError: the text names no tree, or an option does not fit.
    """
    kind, _, value = text.partition(":")
    if kind in _MAKERS:
        tree = _MAKERS[kind](value, options)
    elif text.endswith(".npz") or os.path.exists(text):
        tree = Tree.load(text)
    else:
        raise ValueError(
            f"{text} is no tree: neither a file nor one of {', '.join(_MAKERS)}"
        )
    if options.num_classes not in (None, tree.num_classes):
        raise ValueError(
            f"{text} has {tree.num_classes:,} classes, but "
            f"{'--num_classes' if options.counts is None else '--counts'} has "
            f"{options.num_classes:,}"
        )
    if options.words is not None and tree.names is None:
        tree = tree.with_class_names(options.words)
    return tree


def _two_level(value, options):
    _refuse_value("two_level", value)
    return Tree.two_level(_num_classes("two_level", options))


def _balanced(value, options):
    if not value:
        raise ValueError("balanced needs a fanout, such as balanced:100")
    num_classes = _num_classes("balanced", options)
    return Tree.balanced(num_classes, branching_of(value))


def _huffman(value, options):
    branching = branching_of(value or "2")
    return Tree.huffman(_counts("huffman", options), branching)


def _adaptive(value, options):
    return Tree.adaptive(
        _counts("adaptive", options),
        batch=options.batch,
        width=options.width,
        tail=options.tail,
        cost_model=options.cost_model,
        cutoffs=integers("a cutoff", value) if value else None,
    )


def _embeddings(value, options):
    if not value:
        raise ValueError("embeddings needs a file: embeddings:FILE.npy")
    return Tree.from_embeddings(
        class_files.read_array(value),
        options.branching,
        seed=options.seed,
        metric=options.metric,
    )


def _paths(value, options):
    if not value:
        raise ValueError("paths needs a file: paths:FILE")
    return Tree.from_paths(class_files.read_paths(value))


_MAKERS = {
    "two_level": _two_level,
    "balanced": _balanced,
    "huffman": _huffman,
    "adaptive": _adaptive,
    "embeddings": _embeddings,
    "paths": _paths,
}


def branching_of(text):
    """Returns "100" as 100, and "10,20" as [10, 20]."""
    numbers = integers("a fanout", text)
    return numbers if len(numbers) > 1 else numbers[0]


def tail_of(text):
    """Returns what a tail is: a name, or a branching."""
    return check_tail(int(text) if text.isdecimal() else text)


def integers(what, text):
    """Returns "10,20" as [10, 20]; ValueError if it is something else."""
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise ValueError(
            f"{what} is an integer, and a comma is between two; not {text!r}"
        ) from error


def _refuse_value(kind, value):
    if value:
        raise ValueError(f"{kind} takes no value; not {value!r}")


def _num_classes(kind, options):
    if options.num_classes is None:
        raise ValueError(f"{kind} needs --counts=FILE or --num_classes=N")
    return options.num_classes


def _counts(kind, options):
    if options.counts is not None:
        return options.counts
    return np.ones(max(_num_classes(kind, options), 0), np.int64)
