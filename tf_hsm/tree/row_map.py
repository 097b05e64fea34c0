"""The map from rows of a tree to rows of an earlier tree."""

import numpy as np

from tf_hsm.tree import arrays


def map_rows(old, old_levels, new, new_levels, from_top=False):
    """Returns the row of the old tree for each row of the new, `[R]`, or -1.

    The classes below a row are an interval of depth-first ranks. So a row of
    the new tree has the classes of an old row below it, beside new ones, if the
    old ranks of its old classes are an interval of that begin and size. The
    rows of a chain, which all have the same classes, are told apart by counting
    from the leaf.

    Args:
      old: `TreeArrays` whose classes are the first of the new tree.
      old_levels: their `level_starts`.
      new: `TreeArrays`.
      new_levels: of the new tree.
      from_top: whether to count from the other end instead.
    """
    ranks = arrays.class_ranks(old, old_levels)
    old_keys = _intervals(old, old_levels, ranks)
    new_keys = _intervals(new, new_levels, ranks)
    in_order = _by_key_from_top if from_top else _by_key_from_below
    old_rows, new_rows = map(in_order, (old_keys, new_keys))
    old_keys, new_keys = old_keys[old_rows], new_keys[new_rows]
    # The place of each new row among the rows of its key.
    places = np.arange(new_keys.size) - np.searchsorted(new_keys, new_keys)
    places += np.searchsorted(old_keys, new_keys)
    is_there = places < old_keys.size
    places[~is_there] = 0
    is_there &= old_keys[places] == new_keys
    result = np.empty(new_keys.size, np.int64)
    result[new_rows] = np.where(is_there, old_rows[places], -1)
    return result


def _intervals(tree, levels, ranks):
    """The interval of old ranks below each row as one number, `[R]`, or -1."""
    num_rows = tree.group_offsets[-1]
    lowest = np.full(num_rows, ranks.size)
    highest = np.full(num_rows, -1)
    sizes = np.zeros(num_rows, np.int64)
    leaves = tree.class_rows[: ranks.size]
    lowest[leaves] = highest[leaves] = ranks
    sizes[leaves] = 1
    arrays.reduce_to_root(np.minimum, lowest, tree, levels)
    arrays.reduce_to_root(np.maximum, highest, tree, levels)
    arrays.sum_to_root(sizes, tree, levels)
    is_interval = (sizes > 0) & (highest - lowest + 1 == sizes)
    return np.where(is_interval, lowest * (ranks.size + 1) + sizes, -1)


def _by_key_from_top(keys):
    """The rows in the order of their keys; of equal ones the first is first."""
    return np.argsort(keys, kind="stable")


def _by_key_from_below(keys):
    """The rows in the order of their keys, of equal ones the last row first."""
    return keys.size - 1 - np.argsort(keys[::-1], kind="stable")
