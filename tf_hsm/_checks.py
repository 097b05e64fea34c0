"""Checks of the arguments and of the three arrays that make up a tree."""

import operator

import numpy as np


def check_int(name, value, minimum):
    """Returns `value` as an int; ValueError unless it is one >= `minimum`."""
    number = _as_int(value)
    if number is None:
        raise ValueError(f"{name} must be an integer, not {value!r}")
    if number < minimum:
        raise ValueError(f"{name} is {number}; it must be at least {minimum}")
    return number


def check_class(c, num_classes):
    """Returns `c` as an int; IndexError unless it is in [0, N)."""
    number = _as_int(c)
    if number is None:
        raise IndexError(f"a class is an integer, not {c!r}")
    if not 0 <= number < num_classes:
        raise IndexError(
            f"class {number} is out of range; the classes are 0 to "
            f"{num_classes - 1}"
        )
    return number


def check_integers(name, values):
    """Returns `values` as an int64 array of rank 1, copied only if need be.

    Raises:
      ValueError: they have another rank, or are not integers of 64 bits.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a list of integers") from error
    if array.ndim != 1:
        raise ValueError(
            f"{name} must have rank 1; its shape is {list(array.shape)}"
        )
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


def check_counts(counts, num_classes=None):
    """Returns counts `[N]` as int64 where they are integers, else as float64.

    Args:
      counts: how often each class occurs; at least one, none negative.
      num_classes: N, where it is known.

    Raises:
      ValueError: names the first class whose count is not usable, or says
        that the total passes what the type can hold (2**63 for integers).
    """
    try:
        array = np.asarray(counts)
    except ValueError as error:
        raise ValueError("counts must be a list of numbers") from error
    if array.ndim != 1:
        raise ValueError(
            f"counts must have rank 1; its shape is {list(array.shape)}"
        )
    if not array.size:
        raise ValueError("counts is empty; a tree has at least one class")
    if num_classes is not None and array.size != num_classes:
        raise ValueError(
            f"counts has {array.size} entries; the tree has {num_classes} "
            "classes"
        )
    if array.dtype.kind not in "iuf":
        raise ValueError(f"counts must hold numbers, not {array.dtype}")
    bad = np.isnan(array) | (array < 0) | np.isinf(array)
    if bad.any():
        c = int(np.argmax(bad))
        raise ValueError(
            f"the count of class {c} is {array[c]}; a count must be finite "
            "and not negative"
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


def check_tree(group_offsets, group_parents, class_rows):
    """Checks that three int64 arrays are a tree, as `Tree` describes it.

    Args:
      group_offsets: `[G + 1]`, group g owns the rows from entry g to g + 1.
      group_parents: `[G]`, the row above each group; -1 for the root's.
      class_rows: `[N]`, the leaf row of each class.

    Raises:
      ValueError: names the first group, row or class that breaks one.
    """
    num_groups, num_classes = group_parents.size, class_rows.size
    if not num_groups or not num_classes:
        raise ValueError("a tree has at least one group and one class")
    if group_offsets.size != num_groups + 1:
        raise ValueError(
            f"group_offsets has {group_offsets.size} entries; "
            f"{num_groups} groups need {num_groups + 1}"
        )
    if group_offsets[0] != 0:
        raise ValueError(f"group_offsets[0] is {group_offsets[0]}; must be 0")
    _refuse(
        group_offsets[1:] <= group_offsets[:-1],
        lambda g: (
            f"group {g} is empty: group_offsets[{g}] is {group_offsets[g]} "
            f"and group_offsets[{g + 1}] is {group_offsets[g + 1]}"
        ),
    )
    num_rows = int(group_offsets[-1])
    if num_rows != num_classes + num_groups - 1:
        raise ValueError(
            f"group_offsets[-1] is {num_rows}; {num_classes} classes in "
            f"{num_groups} groups make {num_classes + num_groups - 1} rows"
        )
    _check_parents(group_offsets, group_parents)
    _refuse(
        (class_rows < 0) | (class_rows >= num_rows),
        lambda c: (
            f"class {c} has row {class_rows[c]}; the rows are 0 to "
            f"{num_rows - 1}"
        ),
    )
    is_leaf = np.zeros(num_rows, bool)
    is_leaf[class_rows] = True
    if (
        np.count_nonzero(is_leaf) < num_classes
        or is_leaf[group_parents[1:]].any()
    ):
        _refuse_shared_row(num_rows, group_parents, class_rows)


def _refuse_shared_row(num_rows, group_parents, class_rows):
    """Raises a ValueError about a row that is a leaf and something else."""
    owner = np.empty(num_rows, np.int64)
    owner[class_rows] = np.arange(class_rows.size)
    _refuse(
        owner[class_rows] != np.arange(class_rows.size),
        lambda c: (
            f"row {class_rows[c]} is the leaf of both class {c} and class "
            f"{owner[class_rows[c]]}"
        ),
    )
    group = 1 + int(np.argmax(np.isin(group_parents[1:], class_rows)))
    row = group_parents[group]
    raise ValueError(
        f"row {row} is both the leaf of class {owner[row]} and the parent of "
        f"group {group}"
    )


def _as_int(value):
    """Returns an integer of any kind as an int, None for anything else."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _check_parents(group_offsets, group_parents):
    """Checks that groups follow their parent rows, in the same order."""
    if group_parents[0] != -1:
        raise ValueError(
            f"group_parents[0] is {group_parents[0]}; group 0 is the root's, "
            "so it must be -1"
        )
    _refuse(
        group_parents[1:] <= group_parents[:-1],
        lambda i: (
            f"group {i + 1} has parent row {group_parents[i + 1]} and group "
            f"{i} has {group_parents[i]}; groups are numbered in the order "
            "of their parent rows, one group to a row"
        ),
    )
    _refuse(
        group_parents[1:] >= group_offsets[1:-1],
        lambda i: (
            f"group {i + 1} has parent row {group_parents[i + 1]}, which is "
            f"not above its own first row, {group_offsets[i + 1]}"
        ),
    )


def _refuse(bad, describe):
    """Raises a ValueError about the first position where `bad` is true."""
    if bad.any():
        raise ValueError(describe(int(np.argmax(bad))))
