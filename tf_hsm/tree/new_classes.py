"""The description of new classes of a tree: `Tree.grow`."""

from typing import NamedTuple

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.builders.embeddings import check_vectors, points_of
from tf_hsm.tree.names import check_strs

_SCORES = 1 << 24  # cosines that there are at a time


class NewClasses(NamedTuple):
    """The new classes N to N + size - 1."""

    size: int
    names: list[str] | None
    counts: np.ndarray | None


def read(classes, known):
    """Returns the `NewClasses` of an argument of `Tree.grow`.

    `known` are the names of the old classes, strs, or None. A ValueError says
    that the argument is of no known form, or that a name is there already.
    """
    names = counts = None
    if _checks.is_mapping(classes):
        names, counts = _checks.split_mapping(classes)
    elif isinstance(classes, list | tuple) or getattr(classes, "ndim", 0):
        values = list(classes)
        if any(isinstance(value, str) for value in values):
            names = values
        else:
            counts = classes
    elif isinstance(classes, int | np.integer):
        return NewClasses(_checks.check_int("classes", classes, 1), None, None)
    else:
        raise ValueError(
            "classes must be the number of new ones, a list of their names, a "
            "list of their counts, or a dict from names to counts, not "
            f"{classes!r}"
        )
    size = len(counts if names is None else names)
    if not size:
        raise ValueError("classes is empty; a tree grows by one at least")
    if names is not None:
        names = check_strs(names, size, "new class")
        _check_new(names, known)
    if counts is not None:
        counts = _checks.check_counts(counts)
    return NewClasses(size, names, counts)


def _check_new(names, known):
    seen = set() if known is None else set(known)
    for number, name in enumerate(names):
        if name in seen:
            raise ValueError(
                f"new class {number} is named {name!r}, as another class is; "
                "a name stands for one class, so leave out those that the tree "
                "has"
            )
        seen.add(name)


def nearest_classes(near, num_classes, size):
    """Returns the old class that each new one is to be beside, `[M]`.

    `near` has old classes `[M]`, or vectors `[N + M, D]` of all classes, whose
    cosines are compared.

    Raises:
      ValueError: it is neither, or a new class has a vector of zeros.
    """
    try:
        near = np.asarray(near)
    except ValueError as error:
        raise ValueError(
            "near must be a list of old classes, or an array [classes, width] "
            "of vectors"
        ) from error
    if near.ndim == 1:
        return check_old_classes("near", near, num_classes, size)
    vectors = check_vectors(near, "near")
    if len(vectors) != num_classes + size:
        raise ValueError(
            f"near has {len(vectors)} vectors; there must be one for each of "
            f"the {num_classes} old classes and then one for each of the "
            f"{size} new ones"
        )
    points = points_of(vectors, "cosine")
    old, new = points[:num_classes], points[num_classes:]
    has_direction = new.any(axis=1)
    if not has_direction.all():
        c = num_classes + int(np.argmin(has_direction))
        raise ValueError(
            f"the vector of class {c} is zeros, which is near to nothing; give "
            "near as a list of old classes"
        )
    nobody = ~old.any(axis=1)
    result = np.empty(size, np.int64)
    step = max(1, _SCORES // num_classes)
    for begin in range(0, size, step):
        cosines = new[begin : begin + step] @ old.T
        cosines[:, nobody] = -2
        result[begin : begin + step] = np.argmax(cosines, axis=1)
    return result


def check_old_classes(name, classes, num_classes, size):
    """Returns an argument that has an old class for each new one, `[M]`."""
    classes = _checks.check_integers(name, classes)
    if classes.size != size:
        raise ValueError(
            f"{name} has {classes.size} entries; there must be one old class "
            f"for each of the {size} new ones"
        )
    _checks.refuse_first(
        (classes < 0) | (classes >= num_classes),
        lambda i: (
            f"{name}[{i}] is {classes[i]}; the old classes are 0 to "
            f"{num_classes - 1}"
        ),
    )
    return classes
