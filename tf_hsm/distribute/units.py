"""The unit of a plan above each group and each class."""

import itertools

import numpy as np

from tf_hsm.tree.arrays import groups_below, groups_of


def group_units(tree, unit_rows):
    """Returns the unit that each group is below, `[G]`; -1: it is in the top.

    Args:
      tree: the `Tree`.
      unit_rows: `[U]`, the row of each unit.

    Raises:
      ValueError: these are no rows; one is there twice or below another; or a
        class has none on its path.
    """
    offsets, parents, _ = tree._arrays
    rows = unit_rows
    if rows.size and (rows.min() < 0 or rows.max() >= tree.num_rows):
        raise ValueError(
            f"unit_rows must be rows of the tree, in [0, {tree.num_rows})"
        )
    if np.unique(rows).size < rows.size:
        raise ValueError("unit_rows has a row twice")
    groups = groups_below(parents, rows)
    result = np.full(tree.num_groups, -1, np.int64)
    result[groups[groups >= 0]] = np.flatnonzero(groups >= 0)
    above = groups_of(offsets, parents)
    for begin, end in itertools.pairwise(tree._levels[1:]):
        inherited = result[above[begin:end]]
        if ((result[begin:end] >= 0) & (inherited >= 0)).any():
            raise ValueError("unit_rows has a row below another one")
        np.maximum(result[begin:end], inherited, out=result[begin:end])
    is_below = result[groups_of(offsets, rows)] >= 0
    if is_below.any():
        raise ValueError("unit_rows has a row below another one")
    # The rows of the top are the units, and the rows above its other groups.
    in_top = result < 0
    num_rows = int(np.diff(offsets)[in_top].sum())
    if num_rows != rows.size + np.count_nonzero(in_top) - 1:
        found = class_units(tree, rows, result)
        c = int(np.argmax(found < 0))
        raise ValueError(f"unit_rows have no row on the path of class {c}")
    return result


def class_units(tree, unit_rows, units):
    """Returns the unit that each class is, or is below, `[N]`; -1: none.

    Args:
      tree: the `Tree`.
      unit_rows: `[U]`, the row of each unit.
      units: `[G]`, as `group_units` returns them.
    """
    unit_of_row = np.full(tree.num_rows, -1, np.int64)
    unit_of_row[unit_rows] = np.arange(unit_rows.size)
    rows = tree.class_rows
    return np.maximum(units[tree.row_groups[rows]], unit_of_row[rows])
