"""The three arrays that are a whole tree, and what follows from them.

All of it takes O(R) work and one short step per level, without recursion.
`levels` are the first groups of each level: the groups `levels[l]` to
`levels[l + 1]` have depth l, and the last entry is G. Those of a tree's arrays
are `level_starts`; a forest's stand tree by tree, until `sort_by_level`.
"""

import itertools
from typing import NamedTuple

import numpy as np


class TreeArrays(NamedTuple):
    """The arrays that `Tree` and `Forest` describe, int64."""

    group_offsets: np.ndarray  # [G + 1]
    group_parents: np.ndarray  # [G]
    class_rows: np.ndarray  # [N]


def assemble(fanouts, is_inner, class_rows):
    """Returns the `TreeArrays` of rows in breadth-first order.

    `fanouts [G]` are the rows of each group, `is_inner [R]` says which rows
    have children, and `class_rows [N]` are the leaves.
    """
    group_offsets = np.zeros(fanouts.size + 1, np.int64)
    np.cumsum(fanouts, out=group_offsets[1:])
    group_parents = np.full(fanouts.size, -1, np.int64)
    group_parents[1:] = np.flatnonzero(is_inner)
    return TreeArrays(group_offsets, group_parents, class_rows)


def level_starts(arrays):
    """Returns a tree's `levels [L + 1]`, the first group of each, and G."""
    group_offsets, group_parents, _ = arrays
    levels = [0, 1]
    while levels[-1] < group_parents.size:
        end_row = group_offsets[levels[-1]]
        levels.append(int(np.searchsorted(group_parents, end_row)))
    return np.array(levels)


def sort_by_level(arrays):
    """Returns a forest's arrays with all groups of a level side by side.

    Those of a level keep their order. Rows have the numbers that follow.

    Returns:
      The `TreeArrays`; their `levels`; and the new number of each row, `[R]`.
    """
    group_offsets, group_parents, class_rows = arrays
    groups_of_rows = row_groups(group_offsets)
    is_root = group_parents < 0
    # Groups below a group are neighbours among those that are no roots.
    below = np.flatnonzero(~is_root)
    counts = np.bincount(
        groups_of_rows[group_parents[below]], minlength=group_parents.size
    )
    firsts = np.cumsum(counts) - counts
    parts = [np.flatnonzero(is_root)]
    while parts[-1].size:
        parts.append(below[ranges(firsts[parts[-1]], counts[parts[-1]])])
    order = np.concatenate(parts)
    levels = np.cumsum([0, *(part.size for part in parts[:-1])])

    offsets = np.zeros_like(group_offsets)
    np.cumsum(np.diff(group_offsets)[order], out=offsets[1:])
    shifts = np.empty(order.size, np.int64)  # of the rows of each group
    shifts[order] = offsets[:-1] - group_offsets[order]
    rows = np.arange(groups_of_rows.size) + shifts[groups_of_rows]
    parents = group_parents[order]
    parents[levels[1] :] = rows[parents[levels[1] :]]
    return TreeArrays(offsets, parents, rows[class_rows]), levels, rows


def ranges(firsts, counts):
    """Returns `first` to `first + count - 1` for each pair, end to end."""
    ends = np.cumsum(counts)
    return np.arange(counts.sum()) + np.repeat(firsts - ends + counts, counts)


def row_groups(group_offsets):
    """Returns the group that each row belongs to, `[R]`."""
    return np.repeat(np.arange(group_offsets.size - 1), np.diff(group_offsets))


def groups_of(group_offsets, rows):
    """Returns the group that each of some rows belongs to, without `[R]`."""
    return np.searchsorted(group_offsets, rows, side="right") - 1


def groups_below(group_parents, rows):
    """Returns the group below each of some rows of a tree, or -1."""
    groups = np.searchsorted(group_parents, rows)
    groups[groups == group_parents.size] = 0  # whose parent is no row
    return np.where(group_parents[groups] == rows, groups, -1)


def inverse(num_rows, rows, start):
    """Returns `[R]`: `start + i` where the row is `rows[i]`, -1 elsewhere."""
    result = np.full(num_rows, -1, np.int64)
    result[rows] = np.arange(start, start + rows.size)
    return result


def row_children(arrays):
    """Returns the group below each row, -1 for a leaf, `[R]`."""
    group_offsets, group_parents, _ = arrays
    result = np.full(group_offsets[-1], -1, np.int64)
    below = np.flatnonzero(group_parents >= 0)
    result[group_parents[below]] = below
    return result


def sum_from_root(values, levels, groups_above):
    """Returns `[G]`: the sum of `values` from a root's group to each group.

    `groups_above [G]` are the groups of the parent rows; any for a root.
    """
    sums = values.copy()
    for begin, end in itertools.pairwise(levels[1:]):
        sums[begin:end] += sums[groups_above[begin:end]]
    return sums


def sum_to_root(values, arrays, levels):
    """Sets inner rows of `values [R]` to the sums of their children."""
    reduce_to_root(np.add, values, arrays, levels)


def reduce_to_root(function, values, arrays, levels):
    """Does `sum_to_root` with another function of two numbers, a ufunc."""
    group_offsets, group_parents, _ = arrays
    for begin, end in zip(levels[-2:0:-1], levels[:1:-1], strict=True):
        first = group_offsets[begin]
        values[group_parents[begin:end]] = function.reduceat(
            values[first : group_offsets[end]],
            group_offsets[begin:end] - first,
        )


def sum_groups_to_root(values, above, levels):
    """Adds the values below each group to `values [G]`, in place.

    `above [G]` is the group above each group.
    """
    for first, begin, end in zip(
        levels[-3::-1], levels[-2:0:-1], levels[:1:-1], strict=True
    ):
        values[first:begin] += np.bincount(
            above[begin:end] - first, values[begin:end], begin - first
        )


def row_leaves(arrays, levels):
    """Returns the number of leaves at or below each row, `[R]`."""
    leaves = np.ones(arrays.group_offsets[-1], np.int64)
    sum_to_root(leaves, arrays, levels)
    return leaves


def class_ranks(arrays, levels):
    """Returns the place of each leaf in depth-first order, `[N]`."""
    return row_spans(arrays, levels)[arrays.class_rows, 0]


def row_spans(arrays, levels):
    """Returns the ranks of the leaves at or below each row, `[R, 2]`.

    These are an interval, from the first rank to one past the last. The leaves
    before a row are the leaves before its group's parent row and the leaves of
    its earlier siblings. With `before`, the leaves of all earlier rows, the
    second part is `before[row] - before[first row of the group]`, so the answer
    is `before[row]` and a sum of terms of the groups above. Groups of roots
    count as one.
    """
    group_offsets, group_parents, _ = arrays
    groups_of_rows = row_groups(group_offsets)
    leaves = row_leaves(arrays, levels)
    before = np.cumsum(leaves) - leaves
    roots = levels[1]
    shifts = np.zeros(group_parents.size, np.int64)
    shifts[roots:] = (
        before[group_parents[roots:]] - before[group_offsets[roots:-1]]
    )
    shifts = sum_from_root(shifts, levels, groups_of_rows[group_parents])
    first = before + shifts[groups_of_rows]
    return np.stack([first, first + leaves], 1)


def row_ranks(spans):
    """Returns each row's place in depth-first order, `[R]`, from `row_spans`.

    Rows that begin with the same leaf lie below each other, and their numbers
    ascend from the top down.
    """
    order = np.argsort(spans[:, 0], kind="stable")
    return inverse(order.size, order, 0)
