"""Where the tails of an adaptive softmax begin, how wide they are, and of what.

A tail is given as "flat", "two_level", the branching of a balanced tree, or a
`Tree`; or as a list with one of these for each.
"""

import numpy as np

from tf_hsm import _checks
from tf_hsm.cost.cutoffs import cutoffs as best_cutoffs
from tf_hsm.tree import Tree
from tf_hsm.tree.memory import check_fits

_CLASS_BYTES = 125  # The most that a class takes, by tracemalloc.


def choose_cutoffs(counts, num_classes, num_clusters, tail, **settings):
    """Returns the cutoffs that take the least time, a list of ints.

    Args:
      counts: `[N]`, or None: the classes are in order of falling frequency, as
        by Zipf's law.
      num_classes: N.
      num_clusters: see `tf_hsm.cost.cutoffs.cutoffs`; so is the rest.
      tail: how tails are built.
      **settings: the rest.

    Raises:
      ValueError: there are no such cutoffs.
    """
    if isinstance(tail, (list, tuple, Tree)):
        raise ValueError(
            "a tail that is a list or a Tree needs a list of cutoffs: the best "
            "ones depend on how any tail would be built"
        )
    if counts is None:
        check_fits(f"num_classes is {num_classes}", num_classes, _CLASS_BYTES)
        counts = 1 / np.arange(1.0, num_classes + 1)
    try:
        return best_cutoffs(
            np.sort(counts)[::-1], num_clusters, tail=tail, **settings
        )
    except ValueError as error:
        raise ValueError(f"cutoffs = {num_clusters!r}: {error}") from error


def tail_widths(width, div_value, num_tails):
    """Returns the widths of the shortlist and of the tails.

    Args:
      width: of the inputs.
      div_value: how much narrower each is than the one before.
      num_tails: J.

    Raises:
      ValueError: one would have none.
    """
    found = [
        _width_of(width, div_value, number) for number in range(num_tails + 1)
    ]
    if found[-1] < 1:
        raise ValueError(
            f"tail {found.index(0)} has no width left: inputs are {width} "
            f"wide, and div_value is {div_value:g}; use fewer cutoffs or a "
            "smaller div_value"
        )
    return found


def serialize_tail(tail):
    """Returns what JSON can hold."""
    if isinstance(tail, (list, tuple)):
        return [serialize_tail(t) for t in tail]
    if isinstance(tail, Tree):
        return tail.get_config()
    # A branching as a Python integer, which JSON can hold.
    return tail if isinstance(tail, str) else _checks.as_integer("tail", tail)


def deserialize_tail(tail):
    """Returns what `serialize_tail` was given."""
    if isinstance(tail, (list, tuple)):
        return [deserialize_tail(t) for t in tail]
    return Tree.from_config(tail) if isinstance(tail, dict) else tail


def grown_tails(tail, trees, num_new):
    """Returns the option `tail` for more classes in the last tail.

    A tail of one group stays one.

    Args:
      tail: the option as it was.
      trees: the trees of the tails, at least one.
      num_new: how many classes join the last tail.

    Raises:
      ValueError: the last tree is pinned.
    """
    if not num_new:
        return tail
    kinds = [tail] * len(trees)
    if isinstance(tail, (list, tuple)):
        kinds = list(tail)
    last = trees[-1]
    if isinstance(kinds[-1], str) and kinds[-1] == "flat":
        return tail
    if last.pinned:
        raise ValueError(
            f"the tree of tail {len(trees) - 1} is pinned, and its groups have "
            "no room for new classes; make the layer with tree.expand() for "
            "that tail"
        )
    near = np.zeros(num_new, np.int64) if last.num_groups == 1 else None
    return [*kinds[:-1], last.grow(num_new, near=near)]


def _width_of(width, div_value, number):
    try:
        return int(width // div_value**number)
    except OverflowError:
        return 0
