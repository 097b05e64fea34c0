"""The classes that a user keeps: `Tree.prune`."""

import numbers

import numpy as np

from tf_hsm import _checks


def read(keep, num_classes, counts):
    """Returns the kept classes as bools `[N]`, and the checked counts.

    Raises:
      ValueError: `keep` is none of the forms of `Tree.prune`, names no class,
        or needs counts; or the counts are not usable.
    """
    if counts is not None:
        counts = _checks.check_counts(counts, num_classes)
    return _mask(keep, num_classes, counts), counts


def _mask(keep, num_classes, counts):
    if getattr(keep, "ndim", None) == 0 and hasattr(keep, "item"):
        keep = keep.item()
    if isinstance(keep, numbers.Real) and not isinstance(keep, bool):
        return _most_frequent(_size(keep, num_classes), num_classes, counts)
    try:
        array = np.asarray(keep)
    except ValueError:
        array = np.zeros([], object)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ValueError(
            "keep must be a number of classes, a fraction of them, a mask of "
            f"bools [{num_classes}] or a list of classes, not {keep!r}"
        )
    if not array.size:
        raise ValueError("keep is empty; at least one class must be left")
    if array.dtype.kind == "b":
        return _check_mask(array, num_classes)
    return _mask_of(_checks.check_integers("keep", array), num_classes)


def _size(keep, num_classes):
    if isinstance(keep, numbers.Integral):
        size = _checks.check_int("keep", keep, 1)
        if size > num_classes:
            raise ValueError(
                f"keep is {size}; the tree has {num_classes} classes"
            )
        return size
    if not 0 < keep < 1:
        raise ValueError(
            f"keep is {keep}; a fraction of the classes is between 0 and 1"
        )
    return max(1, round(keep * num_classes))


def _most_frequent(size, num_classes, counts):
    if counts is None:
        raise ValueError(
            f"keep asks for the {size} most frequent classes, but the tree has "
            "no counts; pass counts, a mask or a list of classes"
        )
    mask = np.zeros(num_classes, bool)
    # The first of equally frequent classes.
    mask[np.argsort(-counts, kind="stable")[:size]] = True
    return mask


def _check_mask(mask, num_classes):
    if mask.size != num_classes:
        raise ValueError(
            f"keep has {mask.size} bools; the tree has {num_classes} classes"
        )
    if not mask.any():
        raise ValueError("keep is False everywhere; one class must be left")
    return mask


def _mask_of(classes, num_classes):
    _checks.refuse_first(
        (classes < 0) | (classes >= num_classes),
        lambda i: (
            f"keep[{i}] is {classes[i]}; the classes are 0 to {num_classes - 1}"
        ),
    )
    mask = np.zeros(num_classes, bool)
    mask[classes] = True
    if mask.sum() < classes.size:
        values, times = np.unique(classes, return_counts=True)
        raise ValueError(
            f"keep has class {values[np.argmax(times > 1)]} twice; name each "
            "class once"
        )
    return mask
