"""Trees of similar classes: the shape of `balanced`, filled by clustering."""

import sys
import time

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.builders import balanced as builders_balanced
from tf_hsm.tree.clustering import balanced_clusters

METRICS = ("cosine", "euclidean")
_CHUNK = 2**20  # numbers that are converted at once
_SECONDS = 5  # between two lines of progress


def from_embeddings(
    vectors,
    branching=None,
    seed=0,
    metric="cosine",
    max_iterations=50,
    verbose=True,
):
    """See `Tree.from_embeddings`."""
    vectors = _check_vectors(vectors)
    seed = _checks.check_int("seed", seed, 0)
    if metric not in METRICS:
        raise ValueError(f"metric is {metric!r}; it must be one of {METRICS}")
    max_iterations = _checks.check_int("max_iterations", max_iterations, 1)
    if branching is None:
        arrays = builders_balanced.two_level(len(vectors))
    else:
        arrays = builders_balanced.balanced(len(vectors), branching)
    leaf_classes = balanced_clusters.leaf_points(
        _points(vectors, metric),
        arrays,
        seed,
        max_iterations,
        _Progress() if verbose else lambda text: None,
    )
    _sort_siblings(leaf_classes, arrays)
    class_rows = np.empty_like(arrays.class_rows)
    # In `arrays` the leaves stand in class order: class c is the c-th leaf.
    class_rows[leaf_classes] = arrays.class_rows
    return arrays._replace(class_rows=class_rows)


class _Progress:
    """Writes to stderr what takes long, one line every few seconds."""

    def __init__(self):
        self._start = self._last = time.monotonic()

    def __call__(self, text):
        now = time.monotonic()
        if now - self._last >= _SECONDS:
            self._last = now
            print(
                f"Tree.from_embeddings: {text} ({now - self._start:.0f} s)",
                file=sys.stderr,
                flush=True,
            )


def _check_vectors(vectors):
    """Returns `vectors` as a real array `[N, D]`, N and D at least 1."""
    try:
        vectors = np.asarray(vectors)
    except ValueError as error:
        raise ValueError(
            "vectors must be an array [N, D] of numbers"
        ) from error
    if vectors.ndim != 2:
        raise ValueError(
            f"vectors must have rank 2, [N, D]; the shape is "
            f"{list(vectors.shape)}"
        )
    if not vectors.size:
        raise ValueError(
            f"vectors has shape {list(vectors.shape)}; a tree has at least "
            "one class, and a vector at least one number"
        )
    if not np.can_cast(vectors.dtype, np.float32, "same_kind"):
        raise ValueError(f"vectors must hold numbers, not {vectors.dtype}")
    return vectors


def _points(vectors, metric):
    """Returns the points `[N, D]` float32 whose distances are compared.

    For the cosine they are the unit vectors, and zero stays zero: squared
    distances of unit vectors are 2 - 2 cosine. Else they are the vectors less
    their mean, so that float32 can tell them apart far from zero, divided by
    a power of two, so that no square overflows.

    Raises:
      ValueError: a number is NaN or infinite; names the class.
    """
    points = np.empty(vectors.shape, np.float32)
    largest = np.empty(len(vectors))
    step = max(1, _CHUNK // vectors.shape[1])
    chunks = [
        slice(begin, begin + step) for begin in range(0, len(vectors), step)
    ]
    for chunk in chunks:
        wide = np.array(vectors[chunk], np.float64, order="C")
        largest[chunk] = np.abs(wide).max(axis=1)
        bad = ~np.isfinite(largest[chunk])
        if bad.any():
            c = int(np.argmax(bad))
            column = int(np.argmin(np.isfinite(wide[c])))
            raise ValueError(
                f"the vector of class {chunk.start + c} has {wide[c, column]} "
                f"at position {column}; the numbers must be finite"
            )
        if metric == "cosine":
            wide /= np.where(largest[chunk] > 0, largest[chunk], 1)[:, None]
            norms = np.sqrt(np.einsum("nd,nd->n", wide, wide))
            wide /= np.where(norms > 0, norms, 1)[:, None]
            points[chunk] = wide
    if metric == "euclidean":
        exponent = np.frexp(largest.max())[1]

        def scaled(chunk):
            wide = np.array(vectors[chunk], np.float64, order="C")
            return np.ldexp(wide, -exponent)

        mean = sum(scaled(chunk).sum(axis=0) for chunk in chunks) / len(points)
        for chunk in chunks:
            points[chunk] = scaled(chunk) - mean
    return points


def _sort_siblings(leaf_classes, arrays):
    """Sorts the classes of the leaves of each group, in place.

    Args:
      leaf_classes: `[N]`, the class of each leaf in depth-first order.
      arrays: `TreeArrays` whose leaves stand in class order.
    """
    groups = (
        np.searchsorted(arrays.group_offsets, arrays.class_rows, "right") - 1
    )
    places = np.argsort(groups, kind="stable")
    leaf_classes[places] = leaf_classes[np.lexsort((leaf_classes, groups))]
