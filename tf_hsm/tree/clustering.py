"""Puts points into the leaves of a given tree so that similar ones are near.

From the root down, the points below a node are divided among its children,
whose sizes the tree gives. First they are halved again and again, by two-means
with parts of the right sizes, until each part is one child. Then points are
exchanged between children, two at a time (cc/core/clustering).

With K children to a node, a level takes log2 K halvings and up to
`max_iterations` rounds of exchange; each of them takes a few passes over the
points, O(N D).

The libraries of k-means do not keep sizes exactly or, for that, solve a flow
problem of N K edges, too many for a million points.
"""

import itertools

import numpy as np

from tf_hsm.tree.arrays import level_starts, row_spans

_MAX_CLUSTERS = 2**10  # of one node, among which near ones are looked for
_MAX_PAIRS = 2**22  # of clusters, whose distances are in memory at once


def leaf_points(points, arrays, seed, max_iterations, report):
    """Returns the point of each leaf, in depth-first order, `[N]`.

    `points [N, D]` are float32, and `arrays` are the `TreeArrays` of a tree
    with N leaves. `max_iterations` bounds the steps of two-means in a split,
    and the rounds of exchange. `report` is called with a text now and then.
    The result does not depend on the number of threads.
    """
    from tf_hsm.runtime.array_ops import Clusters

    clusters = Clusters(points, seed, max_iterations)
    levels = _levels(arrays)
    for number, (starts, sizes, offsets) in enumerate(levels, 1):
        name = f"level {number} of {len(levels)}"
        for runs in _halves(starts, sizes, offsets):
            size = (runs[:, 2] - runs[:, 0]).max()
            report(f"{name}, parts of {size:,} classes")
            clusters.split(runs)
        for siblings in _open_siblings(sizes, offsets):
            where = f"{name}, "
            if len(siblings) > 1:
                where += f"{len(siblings):,} groups of {siblings.shape[1]}, "
            calls = _exchange(
                clusters, starts[siblings], sizes[siblings], max_iterations
            )
            for done, share in calls:
                report(f"{where}round {done}: {100 * share:.2g}% moved")
    return clusters.order.numpy()


def _exchange(clusters, starts, sizes, max_rounds):
    """Exchanges points within families of clusters, `[F, K]`.

    Yields the number of rounds so far, and how many points moved in a round, as
    a share. Many families are done at once, each with all of its rounds.
    """
    splits = np.zeros((*starts.shape, starts.shape[1]), np.float32)
    rounds = 1 if len(starts) == 1 else max_rounds
    for done in range(rounds, max_rounds + 1, rounds):
        splits, is_open, num_moved = clusters.exchange(
            starts, sizes, splits, rounds
        )
        if not is_open:
            return
        yield done, num_moved / sizes.sum() / rounds


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


def _halves(starts, sizes, offsets):
    """Yields runs, `[P, 3]`, whose two parts are some children of one parent.

    After the last ones, each part is one child. Child c has the places from
    `starts[c]` on, `sizes[c]` of them, and `offsets` are the first child of
    each parent. A run is its first place, where its right part begins, and the
    place after it.
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
        middle = (first + last) // 2 + 1
        yield np.stack([starts[first], starts[middle], ends], axis=1)
        first = np.stack([first, middle], axis=1).ravel()
        last = np.stack([middle - 1, last], axis=1).ravel()


def _open_siblings(sizes, offsets):
    """Yields children `[F, K]` of F parents that an exchange may improve.

    Where a parent has a great many children, K are a run of them. Child c has
    `sizes[c]` points, and `offsets` are the first child of each parent.
    """
    counts = np.diff(offsets)
    # The halving of two children was their exchange.
    is_open = (counts > 2) & (np.maximum.reduceat(sizes, offsets[:-1]) > 1)
    blocks = {}
    for first, count in zip(
        offsets[:-1][is_open].tolist(), counts[is_open].tolist(), strict=True
    ):
        for begin in range(0, count, _MAX_CLUSTERS):
            size = min(count - begin, _MAX_CLUSTERS)
            blocks.setdefault(size, []).append(first + begin)
    for count, begins in blocks.items():
        step = max(1, _MAX_PAIRS // count**2)
        for begin in range(0, len(begins), step):
            firsts = np.array(begins[begin : begin + step])
            yield firsts[:, None] + np.arange(count)
