"""Semantic IDs: paths of codes that similar items share."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree import clustering
from tf_hsm.tree.arrays import level_starts, ranges, row_leaves
from tf_hsm.tree.builders.balanced import balanced
from tf_hsm.tree.builders.embeddings import (
    METRICS,
    Frame,
    check_vectors,
    points_of,
)
from tf_hsm.tree.builders.progress import progress

_CHUNK = 2**24  # distances that are held at once


def semantic_ids(
    vectors,
    num_codes: Sequence[int],
    *,
    seed: int = 0,
    metric: str = "cosine",
    max_iterations: int = 50,
    verbose: bool = True,
    return_encoder: bool = False,
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

    Later items get codes from an encoder, which keeps the means of the
    clusters. The codes of the earlier items stay as they are:

    >>> codes, encoder = tf_hsm.semantic_ids(
    ...     vectors, [256, 256, 256], return_encoder=True)
    >>> codes = np.concatenate([codes, encoder.encode(new_vectors, codes)])

    Args:
      vectors: `[N, D]` real numbers, one vector per item.
      num_codes: how many clusters each level has, a list of ints of at least 1.
      seed: an integer, at least 0.
      metric: "cosine" or "euclidean", as for `Tree.from_embeddings`.
      max_iterations: as for `Tree.from_embeddings`.
      verbose: whether to write to stderr, every few seconds, how far it is.
      return_encoder: whether to return a `SemanticIdEncoder` too.

    Returns:
      `[N, levels + 1]` int32; with `return_encoder`, a pair of these codes and
      the encoder.

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
    frame = Frame.of(vectors, metric)
    points = points_of(vectors, metric, frame)
    codes = np.empty([len(points), len(sizes) + 1], np.int32)
    centroids = []
    for level, size in enumerate(sizes):

        def report_level(text, level=level):
            report(f"code {level + 1} of {len(sizes)}, {text}")

        own = _clusters(points, size, seed, max_iterations, report_level)
        codes[:, level] = own
        centroids.append(_means(points, own))
        points -= centroids[-1][own]
    codes[:, -1] = _numbers_of_equals(codes[:, :-1])
    if not return_encoder:
        return codes
    return codes, SemanticIdEncoder(metric, frame, tuple(centroids))


@dataclasses.dataclass(frozen=True, eq=False)
class SemanticIdEncoder:
    """Gives codes to items that `semantic_ids` has not seen.

    The code of an item at a level is the cluster with the nearest mean,
    whatever the size of the cluster. `semantic_ids` makes clusters of equal
    size. So for a vector that `semantic_ids` has seen, the encoder can find
    other codes.

    `pickle` can save an encoder.

    Attributes:
      metric: "cosine" or "euclidean".
      frame: the origin and the unit of the points that are compared; None for
        "cosine".
      centroids: the means of each level's clusters, `[clusters, D]` float32
        each.
    """

    metric: str
    frame: Frame
    centroids: tuple[np.ndarray, ...]

    def encode(self, vectors, codes=None):
        """Returns the codes of items, `[n, levels + 1]` int32.

        Args:
          vectors: `[n, D]` real numbers, one vector per item.
          codes: `[N, levels + 1]`, the codes of all earlier items. The last
            code then counts on from these items, so that each path stays the ID
            of one item. None: no item exists.

        Raises:
          ValueError: `vectors` has another shape or a number that is NaN or
            infinite, or `codes` has another shape.
        """
        vectors = check_vectors(vectors)
        width = self.centroids[0].shape[1]
        if vectors.shape[1] != width:
            raise ValueError(
                f"vectors has shape {list(vectors.shape)}; the encoder is for "
                f"vectors of {width} numbers"
            )
        levels = len(self.centroids)
        earlier = np.empty([0, levels + 1]) if codes is None else codes
        earlier = np.asarray(earlier).astype(np.int32)
        if earlier.ndim != 2 or earlier.shape[1] != levels + 1:
            raise ValueError(
                f"codes has shape {list(earlier.shape)}; it must be [items, "
                f"{levels + 1}]"
            )
        points = points_of(vectors, self.metric, self.frame)
        found = np.empty([len(points), levels + 1], np.int32)
        for level, means in enumerate(self.centroids):
            found[:, level] = _nearest(points, means)
            points -= means[found[:, level]]
        both = np.concatenate([earlier, found])
        # The largest number counts, since earlier items can be gone.
        paths, own = np.unique(both[:, :-1], axis=0, return_inverse=True)
        own = own.reshape(-1)
        first = np.zeros(len(paths), np.int32)
        np.maximum.at(first, own[: len(earlier)], earlier[:, -1] + 1)
        own = own[len(earlier) :]
        found[:, -1] = first[own] + _numbers_of_equals(own[:, np.newaxis])
        return found


def _nearest(points, means):
    """Returns `[n]`, the number of the mean nearest to each point."""
    # Squared distances less the squares of the points.
    squares = np.square(means).sum(1)
    step = max(1, _CHUNK // len(means))
    nearest = np.empty(len(points), np.int32)
    for i in range(0, len(points), step):
        distances = squares - 2 * points[i : i + step] @ means.T
        nearest[i : i + step] = np.argmin(distances, 1)
    return nearest


def _clusters(points, count, seed, max_iterations, report):
    """Returns `[N]`, the number of each point's cluster."""
    size = len(points)
    arrays = balanced(size, [count, -(-size // count)])
    order = clustering.leaf_points(points, arrays, seed, max_iterations, report)
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
    sizes = np.diff(np.flatnonzero(is_first), append=len(codes))
    numbers = np.empty(len(codes), np.int32)
    numbers[order] = ranges(np.zeros_like(sizes), sizes)
    return numbers
