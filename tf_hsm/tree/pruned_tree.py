"""Trees for fewer classes than an earlier one."""

import itertools
from typing import Any, NamedTuple

import numpy as np

from tf_hsm.tree import arrays
from tf_hsm.tree.builders.nodes import arrays_of_nodes


class PrunedTree(NamedTuple):
    """The result of `Tree.prune`.

    Attributes:
      tree: the pruned `tf_hsm.Tree`.
      classes: `[N]` int64, the new class of each old class; -1 for a class
        that was dropped.
      rows: `[R]` int64, the old row that each row of the pruned tree continues.
    """

    tree: Any
    classes: np.ndarray
    rows: np.ndarray


def prune(tree, keep, how):
    """Returns the `PrunedTree` of a tree with the classes `keep [N]`, bools.

    `how` is "merge"; or "collapse", as with `merge=False`; or "drop", where
    groups of one row stay.
    """
    if tree.pinned and how != "merge" and keep.sum() == 1:
        raise ValueError(
            "keep has a single class, but a pinned tree has two at least; keep "
            "another class, or take tree.expand()"
        )
    made, classes, rows = pruned_arrays(tree, keep, how)
    made = type(tree)(
        *made,
        names=_names(tree, rows, made.class_rows, classes),
        pinned=tree.pinned,
        counts=None if tree.counts is None else sums(classes, tree.counts),
    )
    return PrunedTree(made, classes, rows)


def pruned_arrays(tree, keep, how):
    """Returns the fields of a `PrunedTree`, with `TreeArrays` for the tree."""
    stays = _staying_rows(tree, keep, how)
    if how == "merge" and stays.all() and not keep.all():
        raise ValueError(
            "every group has a class that is kept at or below one of its rows, "
            "so no removed classes can merge; pass merge=False, which drops "
            "them, or build the tree by counts so that rare classes share "
            "subtrees"
        )
    above = _staying_rows_above(tree, stays)
    # Node 0 is the root. The others are the staying rows.
    rows = np.flatnonzero(stays)
    nodes = np.append(arrays.inverse(tree.num_rows, rows, 1), 0)  # of row -1
    parents = np.append(-1, nodes[above[tree.row_groups[rows]]])
    made, row_nodes = arrays_of_nodes(parents)
    rows = rows[row_nodes - 1]
    new_rows = arrays.inverse(tree.num_rows, rows, 0)

    leaves = tree.class_rows
    leaves = np.where(stays[leaves], leaves, above[tree.row_groups[leaves]])
    class_rows = new_rows[leaves[keep]]
    others = np.setdiff1d(made.class_rows, class_rows)
    class_rows = np.concatenate([class_rows, others])
    classes = arrays.inverse(rows.size, class_rows, 0)[new_rows[leaves]]
    if how != "merge":
        classes[~keep] = -1
    return made._replace(class_rows=class_rows), classes, rows


def sums(classes, values):
    """Returns the sums of values `[N]` over the old classes of each new class.

    `classes` are the field of a `PrunedTree`.
    """
    is_there = classes >= 0
    result = np.zeros(1 + classes.max(), values.dtype)
    np.add.at(result, classes[is_there], values[is_there])
    return result


def means(classes, values, weights=None):
    """Returns the means of values `[N]` over the classes of each new class.

    `weights` are as for `mean_weights`.
    """
    weights = mean_weights(classes, weights)
    return sums(classes, values * weights)


def mean_weights(classes, weights=None):
    """Returns `[N]`, the share of each old class in its new class.

    Without `weights [N]`, or where all are zero, the shares are equal.
    """
    if weights is None:
        weights = np.ones(classes.size)
    weights = np.asarray(weights, np.float64)
    totals = sums(classes, weights)
    sizes = sums(classes, np.ones(classes.size))
    of_class = totals[classes]
    return np.where(
        of_class > 0,
        weights / np.where(of_class > 0, of_class, 1),
        1 / sizes[classes],
    )


def _staying_rows(tree, keep, how):
    """Returns `[R]` bools, the rows that the pruned tree has."""
    has_kept = np.zeros(tree.num_rows, bool)
    has_kept[tree.class_rows] = keep
    arrays.reduce_to_root(np.logical_or, has_kept, tree._arrays, tree._levels)
    if how == "merge":
        group_stays = has_kept[tree.group_parents]
        group_stays[0] = True  # the root's
        return group_stays[tree.row_groups]
    if how == "drop":
        return has_kept
    if keep.sum() == 1:  # A tree has a row.
        only = np.zeros_like(has_kept)
        only[tree.class_rows[keep]] = True
        return only
    left = np.add.reduceat(has_kept.astype(int), tree.group_offsets[:-1])
    return has_kept & (left > 1)[tree.row_groups]


def _staying_rows_above(tree, stays):
    """Returns `[G]`, the lowest staying row above each group; -1: the root."""
    parents = tree.group_parents
    above = np.where((parents >= 0) & stays[parents], parents, -1)
    groups = tree.row_groups[parents]
    for begin, end in itertools.pairwise(tree._levels[1:]):
        # Rows have larger numbers than the rows above them.
        above[begin:end] = np.maximum(
            above[begin:end], above[groups[begin:end]]
        )
    return above


def _names(tree, rows, class_rows, classes):
    """Returns the names `[R]` of the pruned tree, or None."""
    if tree.names is None:
        return None
    names = tree.names[rows]
    is_there = classes >= 0
    old = np.flatnonzero(is_there)
    sizes = np.bincount(classes[is_there])
    single = old[sizes[classes[old]] == 1]
    # A class keeps its name where it takes the place of an inner node.
    names[class_rows[classes[single]]] = tree.names[tree.class_rows[single]]
    return names
