"""Semantic IDs: paths of codes that similar items share."""

from collections.abc import Sequence

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.arrays import level_starts, row_leaves
from tf_hsm.tree.builders.balanced import balanced
from tf_hsm.tree.builders.embeddings import METRICS, check_vectors, points_of
from tf_hsm.tree.builders.progress import progress
from tf_hsm.tree.clustering import balanced_clusters


def semantic_ids(
    vectors,
    num_codes: Sequence[int],
    *,
    seed: int = 0,
    metric: str = "cosine",
    max_iterations: int = 50,
    verbose: bool = True,
):
    """Returns a path of codes for each item, from the vectors of the items.

    The codes come from residual k-means. At each level, k-means divides all
    items into `num_codes[level]` clusters of equal size, by the clustering of
    `Tree.from_embeddings`. The number of an item's cluster is its code. The
    mean of the cluster is then subtracted from the item's vector, and the next
    level clusters the remainders.

    Items that have equal codes at all levels get different numbers, from 0 on,
    as a last code. So each path is the ID of one item:

    >>> codes = tf_hsm.semantic_ids(vectors, [256, 256, 256])  # [N, 4]
    >>> tree = tf_hsm.Tree.from_paths(codes)
    >>> trie = tf_hsm.decoding.Trie(codes)

    Equal arguments give equal codes, whatever the number of threads.

    Args:
      vectors: `[N, D]` real numbers, one vector per item.
      num_codes: how many clusters each level has, a list of ints of at least 1.
      seed: an integer, at least 0.
      metric: "cosine" or "euclidean", as for `Tree.from_embeddings`.
      max_iterations: as for `Tree.from_embeddings`.
      verbose: whether to write to stderr, every few seconds, how far it is.

    Returns:
      `[N, levels + 1]` int32.

    Raises:
      ValueError: `vectors` has another rank, no numbers, or one that is NaN or
        infinite (names the item's number), or an argument is out of range.
    """
    vectors = check_vectors(vectors)
    if isinstance(num_codes, int | np.integer) or not len(num_codes):
        raise ValueError(
            "num_codes must be a list with a number for each level, not "
            f"{num_codes!r}"
        )
    sizes = [_checks.check_int("num_codes", size, 1) for size in num_codes]
    seed = _checks.check_int("seed", seed, 0)
    if metric not in METRICS:
        raise ValueError(f"metric is {metric!r}; it must be one of {METRICS}")
    max_iterations = _checks.check_int("max_iterations", max_iterations, 1)
    report = progress("semantic_ids", verbose)
    points = points_of(vectors, metric)
    codes = np.empty([len(points), len(sizes) + 1], np.int32)
    for level, size in enumerate(sizes):

        def report_level(text, level=level):
            report(f"code {level + 1} of {len(sizes)}, {text}")

        own = _clusters(points, size, seed, max_iterations, report_level)
        codes[:, level] = own
        points -= _means(points, own)[own]
    codes[:, -1] = _numbers_of_equals(codes[:, :-1])
    return codes


def _clusters(points, count, seed, max_iterations, report):
    """Returns `[N]`, the number of each point's cluster."""
    size = len(points)
    arrays = balanced(size, [count, -(-size // count)]) if count > 1 else None
    if arrays is None:
        return np.zeros(size, np.int32)
    order = balanced_clusters.leaf_points(
        points, arrays, seed, max_iterations, report
    )
    levels = level_starts(arrays)
    sizes = row_leaves(arrays, levels)[: arrays.group_offsets[1]]
    clusters = np.empty(size, np.int32)
    clusters[order] = np.repeat(np.arange(sizes.size), sizes)
    return clusters


def _means(points, clusters):
    """Returns the mean point of each cluster, `[clusters, D]`."""
    counts = np.bincount(clusters)
    sums = [np.bincount(clusters, column) for column in points.T]
    return np.float32(np.stack(sums, 1) / counts[:, np.newaxis])


def _numbers_of_equals(codes):
    """Returns `[N]`: how many earlier rows of `[N, L]` equal this one."""
    order = np.lexsort(codes.T)
    is_first = np.ones(len(codes), bool)
    is_first[1:] = (codes[order[1:]] != codes[order[:-1]]).any(1)
    starts = np.flatnonzero(is_first)
    numbers = np.empty(len(codes), np.int32)
    sizes = np.diff(np.append(starts, len(codes)))
    numbers[order] = np.arange(len(codes)) - np.repeat(starts, sizes)
    return numbers
