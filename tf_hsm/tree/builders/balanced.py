"""Trees of a given shape: `balanced` and `two_level`.

Every builder returns `TreeArrays`, which `Tree` then checks.
"""

import math
from typing import NamedTuple

import numpy as np

from tf_hsm import _checks


class TreeArrays(NamedTuple):
    """The three int64 arrays that are a whole tree."""

    group_offsets: np.ndarray  # [G + 1]
    group_parents: np.ndarray  # [G]
    class_rows: np.ndarray  # [N]


def assemble(fanouts, is_inner, class_rows):
    """Makes the arrays of a tree from its rows in breadth-first order.

    Args:
      fanouts: `[G]`, the number of rows of each group.
      is_inner: `[R]` booleans, whether a row has children.
      class_rows: `[N]`, the leaf row of each class.
    """
    group_offsets = np.zeros(fanouts.size + 1, np.int64)
    np.cumsum(fanouts, out=group_offsets[1:])
    group_parents = np.full(fanouts.size, -1, np.int64)
    group_parents[1:] = np.flatnonzero(is_inner)
    return TreeArrays(group_offsets, group_parents, class_rows)


def balanced(num_classes, branching):
    """See `Tree.balanced`."""
    num_classes = _checks.check_int("num_classes", num_classes, 1)
    # The inner nodes of one level: each holds a run of consecutive classes.
    starts = np.zeros(1, np.int64)
    sizes = np.full(1, num_classes, np.int64)
    fanouts, row_classes = [], []
    for width in _level_branching(num_classes, branching):
        fanout = np.minimum(sizes, width)
        child_sizes, child_starts = _split(starts, sizes, fanout)
        is_leaf = child_sizes == 1
        fanouts.append(fanout)
        row_classes.append(np.where(is_leaf, child_starts, -1))
        starts, sizes = child_starts[~is_leaf], child_sizes[~is_leaf]
        if not sizes.size:
            break
    row_classes = np.concatenate(row_classes)
    is_inner = row_classes < 0
    leaf_rows = np.flatnonzero(~is_inner)
    class_rows = np.empty(num_classes, np.int64)
    class_rows[row_classes[leaf_rows]] = leaf_rows
    return assemble(np.concatenate(fanouts), is_inner, class_rows)


def two_level(num_classes):
    """See `Tree.two_level`."""
    num_classes = _checks.check_int("num_classes", num_classes, 1)
    if num_classes <= 3:
        return balanced(num_classes, [num_classes])
    floor = math.isqrt(num_classes)
    num_groups = floor + (num_classes - floor * floor > floor)
    return balanced(num_classes, [num_groups, -(-num_classes // num_groups)])


def _split(starts, sizes, fanout):
    """Splits runs of classes into `fanout` parts that differ by at most 1."""
    first_child = np.cumsum(fanout) - fanout
    child = np.arange(fanout.sum()) - np.repeat(first_child, fanout)
    small, num_larger = (
        np.repeat(part, fanout) for part in np.divmod(sizes, fanout)
    )
    child_starts = np.repeat(starts, fanout)
    child_starts += child * small + np.minimum(child, num_larger)
    return small + (child < num_larger), child_starts


def _level_branching(num_classes, branching):
    """Returns the largest fanout at each level, enough for all classes."""
    if not isinstance(branching, list | tuple | np.ndarray):
        branching = _checks.check_int("branching", branching, 2)
        levels, reach = [branching], branching
        while reach < num_classes:
            levels.append(branching)
            reach *= branching
        return levels
    levels = [
        _checks.check_int(f"branching[{level}]", width, 1)
        for level, width in enumerate(branching)
    ]
    reach = 1
    for width in levels:
        reach = min(reach * width, num_classes)
    if not levels or reach < num_classes:
        raise ValueError(
            f"branching {branching!r} reaches {reach if levels else 0} "
            f"leaves; there are {num_classes} classes"
        )
    return levels
