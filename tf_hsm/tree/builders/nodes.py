"""Trees that are given by the parent of each node: `from_parents`."""

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.arrays import assemble, ranges
from tf_hsm.tree.builders.labeled_nodes import is_labeled, number_nodes
from tf_hsm.tree.memory import check_array_fits
from tf_hsm.tree.names import check_strs

_NODE_BYTES = 75  # The most that a node of a large tree takes, by tracemalloc.


def from_parents(parents, classes, names):
    """Returns the arguments of `Tree` for `Tree.from_parents`."""
    labels = None
    _checks.refuse_sparse("parents", parents, "the parent of each node")
    if is_labeled(parents):
        parents, classes, names, labels = number_nodes(parents, classes, names)
    check_array_fits("parents", parents, _NODE_BYTES)
    parents = _checks.check_integers("parents", parents)
    if names is not None:
        names = check_strs(names, parents.size, "node")
    arrays, row_nodes = arrays_of_nodes(parents, classes, labels)
    if names is not None:
        names = [names[node] for node in row_nodes.tolist()]
    return {**arrays._asdict(), "names": names}


def arrays_of_nodes(parents, classes=None, labels=None):
    """Returns the `TreeArrays` of nodes, and the node of each row, `[R]`.

    Args:
      parents: `[M]` int64, as for `Tree.from_parents`.
      classes: `[M]` integers, as there, or None.
      labels: `[M]`, what errors call the nodes; None: their numbers.
    """
    root = _find_root(parents, labels)
    children, their_parents = _sort_by_parent(parents)
    # The root is the only child of -1.
    child_counts = np.bincount(their_parents[1:], minlength=parents.size)
    class_nodes = _class_nodes(classes, child_counts == 0)
    child_starts = np.cumsum(child_counts)
    child_starts -= child_counts - 1
    if parents.size < 2**31:
        # Half the memory for what is read at random places.
        children, child_counts, child_starts = (
            array.astype(np.int32)
            for array in (children, child_counts, child_starts)
        )
    inner, fanout = np.array([root]), child_counts[root : root + 1]
    fanouts, levels, inner_flags = [], [], []
    while inner.size:
        level = children[ranges(child_starts[inner], fanout)]
        counts = child_counts[level]
        is_inner = counts > 0
        fanouts.append(fanout)
        levels.append(level)
        inner_flags.append(is_inner)
        inner, fanout = level[is_inner], counts[is_inner]
    row_nodes = np.concatenate(levels)
    if row_nodes.size != parents.size - 1:
        _refuse_cycle(parents, root, row_nodes, labels)
    is_inner = np.concatenate(inner_flags)
    leaf_rows = np.flatnonzero(~is_inner)
    node_rows = np.empty(parents.size, np.int64)  # only of leaves
    node_rows[row_nodes[leaf_rows]] = leaf_rows
    class_rows = node_rows[class_nodes]
    return assemble(np.concatenate(fanouts), is_inner, class_rows), row_nodes


def _find_root(parents, labels):
    """Returns the root; ValueError unless all but one have a real parent."""
    if not parents.size:
        raise ValueError("parents is empty; a tree has at least a root")
    if parents.min() < -1 or parents.max() >= parents.size:
        bad = (parents < -1) | (parents >= parents.size)
        node = int(np.argmax(bad))
        raise ValueError(
            f"node {node} has parent {parents[node]}; a parent is one of the "
            f"nodes 0 to {parents.size - 1}, or -1 for the root"
        )
    roots = np.flatnonzero(parents < 0)
    none = "parent -1" if labels is None else "no parent"
    if not roots.size:
        raise ValueError(
            f"parents has no root: there must be a node with {none}"
        )
    if roots.size > 1:
        one, other = (_shown(node, labels) for node in roots[:2])
        raise ValueError(
            f"node {one} and node {other} both have {none}; a tree has one root"
        )
    if parents.size == 1:
        raise ValueError(
            f"node {_shown(0, labels)} is the root and has no children; a tree "
            "of one class has the parents [-1, 0]"
        )
    return int(roots[0])


def _sort_by_parent(parents):
    """Returns the nodes by parent, the root first, and the parent of each."""
    if (parents[1:] >= parents[:-1]).all():
        return np.arange(parents.size), parents
    bits = parents.size.bit_length()
    if 2 * bits > 62:
        nodes = np.argsort(parents, kind="stable")
        return nodes, parents[nodes]
    # Sorting plain numbers takes less than half the time of an argsort.
    keys = parents << bits
    keys |= np.arange(parents.size)
    keys.sort()
    their_parents = keys >> bits
    keys &= (1 << bits) - 1
    return keys, their_parents


def _class_nodes(classes, is_leaf):
    """Returns the node of each class `[N]`, having checked `classes [M]`."""
    leaves = np.flatnonzero(is_leaf)
    if classes is None:
        return leaves
    num_classes = leaves.size
    classes = _checks.check_integers("classes", classes)
    if classes.size != is_leaf.size:
        raise ValueError(
            f"classes has {classes.size} entries; there are {is_leaf.size} "
            "nodes"
        )
    bad = np.where(is_leaf, classes < 0, classes != -1)
    bad |= classes >= num_classes
    if bad.any():
        node = int(np.argmax(bad))
        if is_leaf[node]:
            rule = f"is a leaf: its class must be 0 to {num_classes - 1}"
        else:
            rule = "has children: its class must be -1"
        raise ValueError(f"node {node} has class {classes[node]} but {rule}")
    class_nodes = np.empty(num_classes, np.int64)
    class_nodes[classes[leaves]] = leaves
    bad = class_nodes[classes[leaves]] != leaves
    if bad.any():
        node = int(leaves[np.argmax(bad)])
        c = classes[node]
        raise ValueError(
            f"node {node} and node {class_nodes[c]} both have class {c}"
        )
    return class_nodes


def _refuse_cycle(parents, root, reached_rows, labels):
    """Raises a ValueError that shows a cycle among the unreached nodes."""
    reached = np.zeros(parents.size, bool)
    reached[root] = True
    reached[reached_rows] = True
    node = int(np.argmin(reached))
    seen = set()
    while node not in seen:
        seen.add(node)
        node = int(parents[node])
    cycle = [node, int(parents[node])]
    while cycle[-1] != node and len(cycle) < 8:
        cycle.append(int(parents[cycle[-1]]))
    first, *_ = shown = [_shown(node, labels) for node in cycle]
    if cycle[-1] != node:
        shown.append("...")
    raise ValueError(f"node {first} is its own ancestor: {' -> '.join(shown)}")


def _shown(node, labels):
    """Returns the number of a node, or its label, for an error."""
    return str(node) if labels is None else repr(labels[node])
