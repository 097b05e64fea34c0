"""Which unit of a plan each group and each class is below."""

import itertools

import numpy as np


def group_units(tree, unit_rows):
    """Returns the unit that each group is below, `[G]`; -1: it is in the top.

    Args:
      tree: the `Tree`.
      unit_rows: `[U]`, the row of each unit.

    Raises:
      ValueError: these are no rows, or one is there twice or below another.
    """
    rows = unit_rows
    if rows.size and (rows.min() < 0 or rows.max() >= tree.num_rows):
        raise ValueError(
            f"unit_rows must be rows of the tree, in [0, {tree.num_rows})"
        )
    unit_of_row = np.full(tree.num_rows, -1, np.int64)
    unit_of_row[rows] = np.arange(rows.size)
    if np.count_nonzero(unit_of_row >= 0) < rows.size:
        raise ValueError("unit_rows has a row twice")
    units = np.full(tree.num_groups, -1, np.int64)
    for begin, end in itertools.pairwise(tree._levels[1:]):
        above = tree.group_parents[begin:end]
        inherited = units[tree.row_groups[above]]
        own = unit_of_row[above]
        if ((own >= 0) & (inherited >= 0)).any():
            raise ValueError("unit_rows has a row below another one")
        units[begin:end] = np.maximum(own, inherited)
    return units


def class_units(tree, unit_rows, units):
    """Returns the unit that each class is, or is below, `[N]`.

    Args:
      tree: the `Tree`.
      unit_rows: `[U]`, the row of each unit.
      units: `[G]`, as `group_units` returns them.

    Raises:
      ValueError: a class has none, or has two.
    """
    rows = tree.class_rows
    below = units[tree.row_groups[rows]]
    unit_of_row = np.full(tree.num_rows, -1, np.int64)
    unit_of_row[unit_rows] = np.arange(unit_rows.size)
    own = unit_of_row[rows]
    if ((below >= 0) & (own >= 0)).any():
        raise ValueError("unit_rows has a row below another one")
    result = np.maximum(below, own)
    if (result < 0).any():
        c = int(np.argmax(result < 0))
        raise ValueError(f"unit_rows have no row on the path of class {c}")
    return result
