"""Trees for more classes, and for other counts, than an earlier one."""

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree import new_classes
from tf_hsm.tree.arrays import row_groups
from tf_hsm.tree.builders.balanced import balanced
from tf_hsm.tree.builders.huffman import huffman_arrays
from tf_hsm.tree.builders.nodes import arrays_of_nodes
from tf_hsm.tree.memory import check_fits

_NODE_BYTES = 150  # The most that a row takes while a tree grows.
# As of `from_counts`: long enough to stream, short enough for few to be read.
_LARGEST_FANOUT = 256


def grow(tree, classes, near, branch, max_fanout):
    """Returns a tree with new classes: see `Tree.grow`."""
    _refuse_pinned(tree)
    known = None if tree.names is None else tree.names[tree.class_rows]
    added = new_classes.read(classes, known)
    check_fits(
        f"there are {added.size} new classes",
        tree.num_rows + 2 * added.size,
        _NODE_BYTES,
    )
    parents, numbers = _places(tree, added, near, branch, max_fanout)
    # Node r + 1 is row r, and node 0 the root, here row -1.
    parents = [[-2], tree.group_parents[tree.row_groups], parents]
    numbers = np.where(numbers < 0, -1, tree.num_classes + numbers)
    classes = np.concatenate([[-1], tree.row_classes, numbers])
    arrays, nodes = arrays_of_nodes(1 + np.concatenate(parents), classes)
    names, counts = _node_names(tree, added, classes), tree.counts
    if counts is not None:
        zeros = np.zeros(added.size, np.int64)
        new = zeros if added.counts is None else added.counts
        counts = np.append(counts, new)
    names = None if names is None else names[nodes]
    return type(tree)(*arrays, names=names, counts=counts)


def rebalance(tree, counts, branching):
    """Returns the Huffman tree of new counts: see `Tree.rebalance`."""
    _refuse_pinned(tree)
    counts = _checks.check_counts(tree._by_class(counts), tree.num_classes)
    if branching is None:
        largest = int(np.diff(tree.group_offsets).max())
        branching = min(max(2, largest), _LARGEST_FANOUT)
    better = type(tree).huffman(counts, branching=branching)
    if tree.names is None:
        return better
    rows = better.map_rows(tree)
    return better._with(names=np.where(rows < 0, "", tree.names[rows]))


def _refuse_pinned(tree):
    if tree.pinned:
        raise ValueError(
            "the tree is pinned, and only one that is not can change; take "
            "tree.expand(), and pin() the result if it is binary"
        )


def _places(tree, added, near, branch, max_fanout):
    """Returns the row above each new node, and its place among the new classes.

    The row is -1 for the root, and the place is -1 for a node with children.
    The first node stands for row R. `Tree.grow` describes the arguments.
    """
    if near is not None:
        if branch or max_fanout is not None:
            raise ValueError(
                "near says where each class goes; leave out branch and "
                "max_fanout"
            )
        beside = new_classes.nearest_classes(near, tree.num_classes, added.size)
        groups = tree.row_groups[tree.class_rows[beside]]
        return tree.group_parents[groups], np.arange(added.size)
    if max_fanout is None:
        max_fanout = max(2, int(np.diff(tree.group_offsets).max()))
    max_fanout = _checks.check_int("max_fanout", max_fanout, 2)
    if not branch:
        groups = _fitting_groups(tree, added.size, max_fanout)
        if groups is not None:
            return tree.group_parents[groups], np.arange(added.size)
    return _branch(added, max_fanout, tree.num_rows)


def _node_names(tree, added, classes):
    """Returns the names of nodes that have these classes, or None."""
    if tree.names is None and added.names is None:
        return None
    names = np.full(classes.size, "", object)
    if tree.names is not None:
        names[1 : 1 + tree.num_rows] = tree.names
    if added.names is not None:
        is_new = classes >= tree.num_classes
        places = classes[is_new] - tree.num_classes
        names[is_new] = np.array(added.names, object)[places]
    return names


def _fitting_groups(tree, size, max_fanout):
    """Returns the group `[size]` that each new class fits in; else None."""
    rooms = max_fanout - np.diff(tree.group_offsets)
    rooms[tree.row_groups[tree.group_parents[1:]]] = 0
    groups = np.flatnonzero(rooms > 0)
    # The most room first: so the fewest groups change.
    groups = groups[np.argsort(-rooms[groups], kind="stable")]
    room = np.cumsum(rooms[groups])
    if not groups.size or room[-1] < size:
        return None
    num_filled = int(np.searchsorted(room, size))
    filled, others = groups[:num_filled], groups[num_filled:]
    rest = size - rooms[filled].sum()
    # The last of equally full groups, which is the deepest.
    last = others[rooms[others] >= rest][-1]
    return np.repeat([*filled, last], [*rooms[filled], rest])


def _branch(added, max_fanout, num_rows):
    """Returns what `_places` does, for a branch below the root."""
    if added.size == 1:
        return np.array([-1]), np.array([0])
    if added.counts is not None:
        below = huffman_arrays(added.counts, max_fanout)
    else:
        below = balanced(added.size, _even_fanouts(added.size, max_fanout))
    parents = 1 + below.group_parents[row_groups(below.group_offsets)]
    numbers = np.full(parents.size, -1)
    numbers[below.class_rows] = np.arange(added.size)
    return np.append(-1, num_rows + parents), np.append(-1, numbers)


def _even_fanouts(size, max_fanout):
    """The smallest fanout of as few levels as `max_fanout` allows, a list."""
    levels = 1
    while max_fanout**levels < size:
        levels += 1
    fanout = max(2, round(size ** (1 / levels)))
    return [fanout + (fanout**levels < size)] * levels
