"""Trees of similar classes: the shape of `balanced`, filled by clustering."""

from typing import NamedTuple

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree import clustering
from tf_hsm.tree.arrays import groups_of
from tf_hsm.tree.builders.balanced import balanced, two_level
from tf_hsm.tree.builders.kind import Flag, Kind, parse_fanouts
from tf_hsm.tree.builders.progress import progress
from tf_hsm.tree.check import check_binary
from tf_hsm.tree.class_files import read_array
from tf_hsm.tree.memory import check_fits

METRICS = ("cosine", "euclidean")
_CHUNK = 2**20  # numbers that are converted at once
_CLASS_BYTES = 80  # that a class takes beside its vector, by tracemalloc


def from_embeddings(
    vectors,
    *,
    branching,
    seed,
    metric,
    max_iterations,
    verbose,
    pinned,
):
    """Returns the `TreeArrays` of `Tree.from_embeddings`."""
    vectors = check_vectors(vectors)
    check_fits(
        f"vectors has shape {list(vectors.shape)}",
        len(vectors),
        _CLASS_BYTES + 8 * vectors.shape[1],
    )
    seed = _checks.check_int("seed", seed, 0)
    if metric not in METRICS:
        raise ValueError(f"metric is {metric!r}; it must be one of {METRICS}")
    max_iterations = _checks.check_int("max_iterations", max_iterations, 1)
    if branching is None:
        arrays = two_level(len(vectors))
    else:
        arrays = balanced(len(vectors), branching)
    if pinned:
        # Before what takes long.
        check_binary(arrays.group_offsets)
    report = progress("from_embeddings", verbose)
    points = points_of(vectors, metric)
    return arranged(points, arrays, seed, max_iterations, report)


def arranged(points, arrays, seed, max_iterations, report):
    """Returns a tree of the same shape in which similar classes are near.

    `points [N, D]` float32 has a point for each class, and the leaves of
    `arrays` stand in class order. `report` is called with a text now and then.
    """
    leaf_classes = clustering.leaf_points(
        points, arrays, seed, max_iterations, report
    )
    class_rows = np.empty_like(arrays.class_rows)
    # In `arrays` the leaves stand in class order: class c is the c-th leaf.
    class_rows[leaf_classes] = arrays.class_rows
    groups = groups_of(arrays.group_offsets, class_rows)
    order = np.arange(class_rows.size)
    return arrays._replace(class_rows=sort_siblings(class_rows, groups, order))


def sort_siblings(class_rows, groups, order):
    """Returns class rows where the classes of a group ascend in `order [N]`.

    `groups [N]` is the group of each class, which stays.
    """
    result = np.empty_like(class_rows)
    result[np.lexsort((order, groups))] = class_rows[
        np.lexsort((class_rows, groups))
    ]
    return result


def check_vectors(vectors, name="vectors"):
    """Returns `vectors` as a real array `[N, D]`, N and D at least 1.

    A ValueError about the argument `name` if they are no such array.
    """
    _checks.refuse_sparse(name, vectors, f"{name}.toarray()")
    try:
        vectors = np.asarray(vectors)
    except ValueError as error:
        raise ValueError(
            f"{name} must be an array [N, D] of numbers"
        ) from error
    if vectors.ndim != 2:
        raise ValueError(
            f"{name} must have rank 2, [N, D]; the shape is "
            f"{list(vectors.shape)}"
        )
    if not vectors.size:
        raise ValueError(
            f"{name} has shape {list(vectors.shape)}; a tree has at least "
            "one class, and a vector at least one number"
        )
    if not np.can_cast(vectors.dtype, np.float32, "same_kind"):
        raise ValueError(f"{name} must hold numbers, not {vectors.dtype}")
    return vectors


class Frame(NamedTuple):
    """The origin and the unit of points, where positions are compared.

    Points are the vectors divided by a power of two, so that no square
    overflows, less their mean, so that float32 can tell them apart far from
    zero.

    Attributes:
      mean: `[D]` float64, in the unit.
      exponent: the unit is 2 to this power.
    """

    mean: np.ndarray
    exponent: int

    @classmethod
    def of(cls, vectors, metric):
        """Returns the frame of vectors `[N, D]`; None where angles count."""
        if metric == "cosine":
            return None
        largest = max(
            np.abs(wide).max(initial=0) for _, wide in _finite(vectors)
        )
        exponent = int(np.frexp(largest)[1])
        total = sum(
            np.ldexp(wide, -exponent).sum(axis=0)
            for _, wide in _finite(vectors)
        )
        return cls(total / len(vectors), exponent)


def points_of(vectors, metric, frame=None):
    """Returns the points `[N, D]` float32 whose distances are compared.

    For the cosine they are the unit vectors, and zero stays zero: squared
    distances of unit vectors are 2 - 2 cosine. Else they are the vectors in
    `frame`, or in their own where it is None.

    Raises:
      ValueError: a number is NaN or infinite; names the class.
    """
    if frame is None:
        frame = Frame.of(vectors, metric)
    points = np.empty(vectors.shape, np.float32)
    for chunk, wide in _finite(vectors):
        if frame is None:
            largest = np.abs(wide).max(axis=1)
            wide /= np.where(largest > 0, largest, 1)[:, None]
            norms = np.sqrt(np.einsum("nd,nd->n", wide, wide))
            wide /= np.where(norms > 0, norms, 1)[:, None]
            points[chunk] = wide
        else:
            points[chunk] = np.ldexp(wide, -frame.exponent) - frame.mean
    return points


def _finite(vectors):
    """Yields slices of the classes, and their vectors in float64.

    A ValueError that names the class if a number is NaN or infinite.
    """
    step = max(1, _CHUNK // vectors.shape[1])
    for begin in range(0, len(vectors), step):
        wide = np.array(vectors[begin : begin + step], np.float64, order="C")
        bad = ~np.isfinite(wide)
        if bad.any():
            c, column = np.argwhere(bad)[0]
            raise ValueError(
                f"the vector of class {begin + c} has {wide[c, column]} "
                f"at position {column}; the numbers must be finite"
            )
        yield slice(begin, begin + len(wide)), wide


EMBEDDINGS = Kind(
    "embeddings",
    {"embeddings:FILE.npy": "similar classes together, from vectors [N, D]"},
    lambda tree_class, value, options: tree_class.from_embeddings(
        read_array(value),
        branching=options.flags["branching"],
        seed=options.flags["seed"],
        metric=options.flags["metric"],
    ),
    needs="a file: embeddings:FILE.npy",
    flags=(
        Flag(
            "branching",
            lambda text: text and parse_fanouts(text),
            metavar="K",
            help="of embeddings; else as two_level",
        ),
        Flag(
            "metric",
            choices=METRICS,
            default="cosine",
            help="of embeddings; %(default)s",
        ),
        Flag(
            "seed",
            type=int,
            default=0,
            help="of data and embeddings; %(default)s",
        ),
    ),
    reports=True,
)
