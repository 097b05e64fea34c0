"""Forests cut from trees, with what they were in the tree."""

import dataclasses

import numpy as np

import tf_hsm

# Flat, binary, deep, ragged and of one level; with groups of one row.
TREES = {
    "two_level": lambda: tf_hsm.Tree.two_level(57),
    "binary": lambda: tf_hsm.Tree.balanced(45, 2),
    "three_levels": lambda: tf_hsm.Tree.balanced(300, [6, 5, 10]),
    "huffman": lambda: tf_hsm.Tree.huffman(1.5 ** np.arange(40)),
    "huffman_3": lambda: tf_hsm.Tree.huffman(
        1 + np.arange(60) ** 2, branching=3
    ),
    "ragged": lambda: tf_hsm.Tree.from_nested(
        [[0], 1, [[2, 3, [4]], [5, 6]], [[[7]], [8, 9, 10]], [11, 12]]
    ),
}


@dataclasses.dataclass(frozen=True)
class Cut:
    """The forest below some rows of a tree.

    Attributes:
      forest: a `tf_hsm.Forest`.
      roots: `[num_roots]`, the row of the tree that each root is.
      rows: the row of the tree that each row of the forest is.
      groups: likewise each group.
      classes: likewise each class.
      root_of_class: the root that each class of the forest is below.
    """

    forest: tf_hsm.Forest
    roots: np.ndarray
    rows: np.ndarray
    groups: np.ndarray
    classes: np.ndarray
    root_of_class: np.ndarray


def some_rows(tree, seed):
    """Draws inner rows of a tree, none above another; at least one."""
    rng = np.random.default_rng(seed)
    chosen, waiting = [], [0]
    while waiting:
        group = waiting.pop()
        for row in range(*tree.group_offsets[group : group + 2]):
            below = tree.row_children[row]
            if below < 0:
                continue
            if rng.random() < 0.5:
                chosen.append(row)
            else:
                waiting.append(below)
    if not chosen:
        chosen.append(int(np.flatnonzero(tree.row_children >= 0)[0]))
    return chosen


def cut(tree, roots, seed=0):
    """Cuts a tree below rows, of which none is above another; returns a Cut.

    Trees stand in the order of `roots`. Classes get shuffled numbers.
    """
    rng = np.random.default_rng(seed)
    groups = []
    for root in roots:
        waiting = [tree.row_children[root]]
        for group in waiting:  # grows: breadth-first
            rows = slice(*tree.group_offsets[group : group + 2])
            below = tree.row_children[rows]
            waiting.extend(below[below >= 0])
        groups.extend(waiting)
    forest, rows = _arrays(tree, groups, rng)
    forest = tf_hsm.Forest(*forest)
    classes = tree.row_classes[rows[forest.class_rows]]
    root_of_class = np.array(
        [
            next(i for i, root in enumerate(roots) if root in tree.path(c))
            for c in classes
        ]
    )
    return Cut(
        forest,
        np.array(roots),
        rows,
        np.array(groups),
        classes,
        root_of_class,
    )


def _arrays(tree, groups, rng):
    """The arrays of these groups alone, and the tree's rows that they own."""
    fanouts = np.diff(tree.group_offsets)[groups]
    rows = np.concatenate(
        [np.arange(*tree.group_offsets[g : g + 2]) for g in groups]
    )
    places = np.full(tree.num_rows + 1, -1)
    places[rows] = np.arange(rows.size)  # the last one is of the root's -1
    leaves = np.flatnonzero(~np.isin(tree.row_children[rows], groups))
    arrays = (
        np.concatenate([[0], np.cumsum(fanouts)]),
        places[tree.group_parents[groups]],
        rng.permutation(leaves),
    )
    return arrays, rows
