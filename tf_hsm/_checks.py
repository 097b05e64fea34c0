"""Checks of arguments: integers, classes, counts."""

import math
import numbers
import operator
from collections.abc import Mapping

import numpy as np


def check_is_tree(tree):
    """Raises a TypeError unless an argument is a tree or a forest."""
    if hasattr(tree, "group_offsets"):
        return
    hint = ""
    if isinstance(tree, (int, np.integer)) and not isinstance(tree, bool):
        hint = f"; tf_hsm.Tree.two_level({tree}) is one for {tree} classes"
    raise TypeError(
        f"tree must be a tf_hsm.Tree, but is {type(tree).__name__}{hint}"
    )


def check_int(name, value, minimum):
    """Returns `value` as an int; ValueError unless it is one >= `minimum`."""
    number = _as_int(value)
    if number is None:
        raise ValueError(f"{name} must be an integer, not {value!r}")
    if number < minimum:
        raise ValueError(f"{name} is {number}; it must be at least {minimum}")
    return number


def as_integer(name, value):
    """Returns `value` as an int; TypeError unless it is an integer."""
    number = _as_int(value)
    if number is None:
        raise TypeError(f"{name} must be an integer, but is {value!r}")
    return number


def check_real(name, value, minimum):
    """Returns `value` as a finite float; ValueError unless >= `minimum`."""
    is_real = isinstance(value, numbers.Real)
    if not is_real or not minimum <= value < math.inf:
        raise ValueError(
            f"{name} is {value!r}; it must be a number of at least {minimum}"
        )
    return float(value)


def as_bool_or_none(name, value):
    """Returns `value` as a bool, or None; TypeError if it is neither."""
    if value is not None and not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a bool or None, but is {value!r}")
    return None if value is None else bool(value)


def check_class(c, num_classes):
    """Returns `c` as an int; IndexError unless it is in [0, N)."""
    return _check_index("class", "classes", c, num_classes)


def check_row(row, num_rows):
    """Returns `row` as an int; IndexError unless it is in [0, R)."""
    return _check_index("row", "rows", row, num_rows)


def _check_index(what, plural, value, size):
    number = _as_int(value)
    if number is None:
        raise IndexError(f"a {what} is an integer, not {value!r}")
    if not 0 <= number < size:
        raise IndexError(
            f"{what} {number} is out of range; the {plural} are 0 to {size - 1}"
        )
    return number


def check_integers(name, values):
    """Returns `values` as an int64 array of rank 1, copied only if need be.

    Raises:
      ValueError: they have another rank, or are not integers of 64 bits.
    """
    array = _rank_1(name, values, "integers")
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, not {array.dtype}")
    if array.dtype == np.uint64 and array.size:
        position = int(np.argmax(array))
        if array[position] > np.iinfo(np.int64).max:
            raise ValueError(
                f"{name}[{position}] is {array[position]}; it must be "
                "below 2**63"
            )
    return np.ascontiguousarray(array, np.int64)


def is_mapping(values):
    """Returns whether values have keys: a dict, a Counter, a pandas Series.

    The keys of a DataFrame are no names of classes.
    """
    return hasattr(values, "items") and getattr(values, "ndim", 1) == 1


def split_mapping(mapping):
    """Returns the keys, a list, and the values of a dict or a Series."""
    values = mapping.values
    values = list(values()) if callable(values) else np.asarray(values)
    return list(mapping.keys()), values


def by_class(name, values, num_classes=None, class_of=None, missing=0):
    """Returns numbers in the order of their classes; all but a mapping as is.

    Args:
      name: of the argument, for errors.
      values: `[N]` numbers in the order of the classes; or a mapping, whose
        keys are classes, or names of classes.
      num_classes: N; None: as many as there are keys.
      class_of: `Tree.class_of` of a tree with names; None: there are no names.
      missing: the number of a class without a key, where N is given.

    Raises:
      IndexError: a key is an integer that is no class.
      KeyError: a key is a str that is no name.
      ValueError: a key is neither, or is there twice; or N is not given, and a
        class has no key; or values are a sparse matrix of SciPy.
    """
    if not is_mapping(values):
        instead = "a vector, such as np.ravel(matrix.sum(0))"
        refuse_sparse(name, values, instead)
        return values
    keys, numbers = split_mapping(values)
    size = len(keys) if num_classes is None else num_classes
    if class_of is not None and keys and isinstance(keys[0], str):
        classes = class_of(keys)
    else:
        classes = np.array([_class_of_key(name, key) for key in keys], np.int64)
        if num_classes is None:
            _check_complete(name, classes)
        for c in classes[(classes < 0) | (classes >= size)]:
            check_class(c, size)
    times = np.bincount(classes, minlength=size)
    refuse_first(times > 1, lambda c: f"{name} has class {c} twice")
    array = np.asarray(numbers)
    if array.dtype.kind not in "biuf":
        array = np.array([*numbers, None], object)[:-1]
    result = np.full(size, missing, array.dtype)
    result[classes] = array
    return result


def _class_of_key(name, key):
    c = _as_int(key)
    if c is None:
        raise ValueError(
            f"{name} has the key {key!r}; the keys must all be integers, the "
            "classes, or all strs, the names of the classes of a tree that has "
            "names"
        )
    return c


def _check_complete(name, classes):
    missing = np.setdiff1d(np.arange(classes.size), classes)
    if missing.size:
        raise ValueError(
            f"{name} has no key {missing[0]}; {classes.size} integer keys must "
            f"be the classes 0 to {classes.size - 1}: give a class that does "
            "not occur the count 0"
        )


def check_counts(counts, num_classes=None):
    """Returns counts `[N]` as int64 where they are integers, else as float64.

    Args:
      counts: how often each class occurs, at least one, none negative; see
        `by_class`.
      num_classes: N, where it is known.

    Raises:
      ValueError: names the first class whose count is not usable, or says
        that the total passes what the type can hold (2**63 for integers).
        Keys of a mapping raise what `by_class` raises.
    """
    counts = by_class("counts", counts, num_classes)
    array = _rank_1("counts", counts, "numbers")
    if not array.size:
        raise ValueError("counts is empty; a tree has at least one class")
    if num_classes is not None and array.size != num_classes:
        raise ValueError(
            f"counts has {array.size} entries; the tree has {num_classes} "
            "classes"
        )
    if array.dtype.kind not in "iuf":
        raise ValueError(f"counts must hold numbers, not {array.dtype}")
    refuse_first(
        np.isnan(array) | (array < 0) | np.isinf(array),
        lambda c: (
            f"the count of class {c} is {array[c]}; a count must be finite "
            "and not negative"
        ),
    )
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
        with np.errstate(over="ignore"):
            if not np.isfinite(array.sum()):
                raise ValueError("counts sum to more than a float64 can hold")
        return array
    # A float64 sum is off by far less than the half that is left below 2**63.
    if array.sum(dtype=np.float64) >= 2.0**63 * (1 - 2.0**-20):
        raise ValueError(
            "integer counts must sum to less than 2**63; give them as floats"
        )
    return array.astype(np.int64)


def refuse_sparse(name, values, instead):
    """Raises a ValueError if values are a sparse matrix of SciPy.

    Args:
      name: of the argument.
      values: the argument.
      instead: what to give instead, in Python.
    """
    if hasattr(values, "tocsr"):
        raise ValueError(
            f"{name} must be an array, but are a {type(values).__name__} of "
            f"shape {list(values.shape)}: give {instead}"
        )


def refuse_first(bad, describe):
    """Raises a ValueError about the first position where `bad` is true.

    Args:
      bad: `[n]` bool, NumPy's.
      describe: takes the position, an int, to the message.
    """
    if bad.any():
        raise ValueError(describe(int(np.argmax(bad))))


def _rank_1(name, values, what):
    """Returns an array of rank 1; ValueError if `values` are something else."""
    if isinstance(values, Mapping):
        raise ValueError(
            f"{name} must be a list of {what}, not a {type(values).__name__}"
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a list of {what}") from error
    if array.ndim != 1:
        raise ValueError(
            f"{name} must have rank 1; its shape is {list(array.shape)}"
        )
    return array


def _as_int(value):
    """Returns an integer of any kind as an int, None for anything else."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None
