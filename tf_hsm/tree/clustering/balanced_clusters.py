"""Puts points into the leaves of a given tree so that similar ones are near.

From the root down, the points below a node are divided among its children,
whose sizes the tree gives. First they are halved again and again, by two-means
with parts of the right sizes, until each part is one child. Then points are
exchanged between children (`pair_exchange.py`).

With K children to a node, a level takes log2 K halvings and up to
`max_iterations` rounds of exchange; each of them takes a few passes over the
points, O(N D).

NumPy is enough: the libraries of k-means do not keep sizes exactly or, for
that, solve a flow problem of N K edges, too many for a million points.
"""

import itertools

import numpy as np

from tf_hsm.tree.arrays import level_starts, row_spans
from tf_hsm.tree.clustering import pair_exchange, two_means


def leaf_points(points, arrays, seed, max_iterations, report):
    """Returns the point of each leaf, in depth-first order, `[N]`.

    `points [N, D]` are float32, and `arrays` are the `TreeArrays` of a tree
    with N leaves. `max_iterations` bounds the steps of two-means in a split,
    and the rounds of exchange. `report` is called with a text now and then.
    """
    clusters = two_means.TwoMeans(points, seed, max_iterations)
    levels = _levels(arrays)
    for number, (starts, sizes, offsets) in enumerate(levels, 1):
        name = f"level {number} of {len(levels)}"
        for size in _halve(clusters, starts, sizes, offsets):
            report(f"{name}, parts of {size:,} classes")
        for siblings in pair_exchange.open_siblings(sizes, offsets):
            rounds = pair_exchange.exchange(
                clusters, starts[siblings], sizes[siblings], max_iterations
            )
            for done, share in enumerate(rounds, 1):
                report(f"{name}, round {done}: {100 * share:.2g}% moved")
    return clusters.order


def _levels(arrays):
    """Describes each level of a tree, from the root down.

    Returns:
      A list of three arrays: the first place, in depth-first order, of the
      leaves at or below each row of the level; their number; and the first
      row of each group, counted within the level, with their number.
    """
    first_groups = level_starts(arrays)
    spans = row_spans(arrays, first_groups)
    levels = []
    for begin, end in itertools.pairwise(first_groups):
        first_rows = arrays.group_offsets[begin : end + 1]
        starts, ends = spans[first_rows[0] : first_rows[-1]].T
        levels.append((starts, ends - starts, first_rows - first_rows[0]))
    return levels


def _halve(clusters, starts, sizes, offsets):
    """Halves the points below each parent until each part is one child.

    Child c has the places from `starts[c]` on, `sizes[c]` of them, and
    `offsets` are the first child of each parent. Yields the size of the largest
    part that is about to be halved.
    """
    first, last = offsets[:-1], offsets[1:] - 1
    while True:
        ends = starts[last] + sizes[last]
        size = ends - starts[first]
        # Where each child is one leaf there is nothing to choose.
        is_open = (last > first) & (size > last - first + 1)
        if not is_open.any():
            return
        first, last, ends = first[is_open], last[is_open], ends[is_open]
        yield size[is_open].max()
        middle = (first + last) // 2 + 1
        clusters.split(
            (starts[first], starts[middle] - starts[first]),
            (starts[middle], ends - starts[middle]),
        )
        first = np.concatenate([first, middle])
        last = np.concatenate([middle - 1, last])
