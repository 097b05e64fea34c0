"""Exchanges points between clusters, two clusters at a time.

The points of two near clusters are split anew by two-means, which never makes
the sum of squared distances to the clusters' means larger and leaves their
sizes alone. A round does so for many pairs side by side, no cluster in two.
"""

import numpy as np

_MAX_CLUSTERS = 2**10  # of one node, among which near ones are looked for
_MAX_PAIRS = 2**24  # whose distances are in memory at once
_MAX_MATCHINGS = 32  # in a round, each among the clusters still alone


def open_siblings(sizes, offsets):
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


def exchange(clusters, starts, sizes, max_rounds):
    """Splits near siblings anew until no pair can be better.

    A round takes the nearest pairs first; the more often a pair has been split,
    the farther apart it counts, so that all get their turn. `starts` and
    `sizes`, `[F, K]`, are the places of each of K siblings, F times. Yields the
    share of the points that moved, after each round.
    """
    num_families, count = starts.shape
    itself = np.eye(count, dtype=bool)
    # Pairs of which neither has changed since they were split.
    settled = np.zeros((num_families, count, count), bool)
    num_splits = np.zeros(settled.shape, np.float32)
    changed = np.ones(starts.shape, bool)
    means = np.empty((*starts.shape, clusters.width), np.float32)
    for _ in range(max_rounds):
        means[changed] = clusters.means(starts[changed], sizes[changed])
        distances = _squared_distances(means)
        distances *= np.sqrt(1 + num_splits)
        distances[settled | itself] = np.inf
        family, a, b = _matching(distances)
        if not family.size:
            return
        num_moved = clusters.split(
            (starts[family, a], sizes[family, a]),
            (starts[family, b], sizes[family, b]),
            improve=True,
        )
        changed[:] = False
        changed[family, a] = changed[family, b] = num_moved > 0
        settled &= ~(changed[:, :, None] | changed[:, None, :])
        for left, right in ((a, b), (b, a)):
            settled[family, left, right] = True
            num_splits[family, left, right] += 1
        yield 2 * num_moved.sum() / sizes.sum()


def _squared_distances(means):
    """Returns `[F, K, K]`, between the means `[F, K, D]` of a family."""
    squares = np.einsum("fkd,fkd->fk", means, means)
    distances = np.einsum("fad,fbd->fab", means, means)
    distances *= -2
    distances += squares[:, :, None]
    distances += squares[:, None, :]
    return np.maximum(distances, 0, out=distances)


def _matching(distances):
    """Pairs mutually nearest clusters, then the nearest of the rest, and so on.

    `distances [F, K, K]`, symmetric, are overwritten. Clusters at an infinite
    distance are no pair.

    Returns:
      `[3, pairs]`: the family, and two clusters a < b of it.
    """
    pairs = [np.zeros((3, 0), np.int64)]
    for _ in range(_MAX_MATCHINGS):
        nearest = distances.argmin(axis=2)
        their_nearest = np.take_along_axis(nearest, nearest, axis=1)
        clusters = np.arange(nearest.shape[1])
        family, a = np.nonzero(
            (their_nearest == clusters) & (clusters < nearest)
        )
        b = nearest[family, a]
        is_pair = np.isfinite(distances[family, a, b])
        if not is_pair.any():
            break
        family, a, b = family[is_pair], a[is_pair], b[is_pair]
        pairs.append(np.stack([family, a, b]))
        for cluster in (a, b):
            distances[family, cluster] = np.inf
            distances[family, :, cluster] = np.inf
    return np.concatenate(pairs, axis=1)
