"""The map from rows of a tree to rows of an earlier tree."""

import numpy as np

from tf_hsm.tree import arrays


def map_rows(tree, before, from_top):
    """Returns the row of an earlier tree for each row: see `Tree.map_rows`.

    The classes below a row are an interval of depth-first ranks. So a row has
    the classes of an earlier row below it, beside new ones, if the earlier
    ranks of its old classes are the interval of that row. The rows of
    a chain, which all have the same classes, are told apart by counting from
    the leaf, or with `from_top` from the other end.
    """
    if before.num_classes > tree.num_classes:
        raise ValueError(
            f"the tree has {tree.num_classes} classes, fewer than the "
            f"{before.num_classes} that there were; classes cannot go"
        )
    _check_names(tree, before)
    ranks = before.class_ranks
    old_keys, new_keys = _intervals(before, ranks), _intervals(tree, ranks)
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


def _check_names(tree, before):
    if tree.names is None or before.names is None:
        return
    old = before.names[before.class_rows]
    new = tree.names[tree.class_rows[: before.num_classes]]
    bad = (old != new) & (old != "")
    if bad.any():
        c = int(np.argmax(bad))
        raise ValueError(
            f"class {c} is named {new[c]!r}, but was {old[c]!r}; the old "
            "classes must be the first ones, in their order"
        )


def _intervals(tree, ranks):
    """The interval of old ranks below each row as one number, `[R]`, or -1."""
    lowest = np.full(tree.num_rows, ranks.size)
    highest = np.full(tree.num_rows, -1)
    sizes = np.zeros(tree.num_rows, np.int64)
    leaves = tree.class_rows[: ranks.size]
    lowest[leaves] = highest[leaves] = ranks
    sizes[leaves] = 1
    below = tree._arrays, tree._levels
    arrays.reduce_to_root(np.minimum, lowest, *below)
    arrays.reduce_to_root(np.maximum, highest, *below)
    arrays.sum_to_root(sizes, *below)
    is_interval = (sizes > 0) & (highest - lowest + 1 == sizes)
    return np.where(is_interval, lowest * (ranks.size + 1) + sizes, -1)


def _by_key_from_top(keys):
    """The rows in the order of their keys; of equal ones the first is first."""
    return np.argsort(keys, kind="stable")


def _by_key_from_below(keys):
    """The rows in the order of their keys, of equal ones the last row first."""
    return keys.size - 1 - np.argsort(keys[::-1], kind="stable")
