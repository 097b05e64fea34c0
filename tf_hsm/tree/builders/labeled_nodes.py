"""Trees whose nodes have labels: dicts, pandas Series, graphs of networkx.

The libraries are known by what their objects can do, and are not imported.
"""

import numpy as np

from tf_hsm import _checks


def is_labeled(parents):
    """Returns whether `parents` is a mapping or a graph, not an array."""
    return _checks.is_mapping(parents) or hasattr(parents, "nodes")


def number_nodes(parents, classes, names):
    """Returns the arguments of `from_parents` as arrays, and the labels.

    Nodes are numbered in the order of the keys; a root that is no key is last.
    `names` must be None: labels that are all strs are the names.

    Raises:
      ValueError: a node or a class is not usable; names the node.
    """
    if names is not None:
        raise ValueError(
            "names must be None where parents is no array: nodes that are "
            "strs are their own names"
        )
    is_graph = hasattr(parents, "nodes")
    labels, above = (_read_graph if is_graph else _read_mapping)(parents)
    if not labels:
        raise ValueError("parents is empty; a tree has at least a root")
    numbers = {label: number for number, label in enumerate(labels)}
    try:
        for label in above:
            if label is not None and numbers.setdefault(
                label, len(labels)
            ) == len(labels):
                labels.append(label)
    except TypeError as error:
        raise ValueError(
            f"the parent {label!r} is not hashable; a node must be"
        ) from error
    parents = [-1 if label is None else numbers[label] for label in above]
    parents += [-1] * (len(labels) - len(parents))
    if classes is not None:
        classes = _node_classes(labels, parents, classes)
    names = labels if all(isinstance(x, str) for x in labels) else None
    return parents, classes, names, labels


def _read_graph(graph):
    """Returns the nodes, and the parent of each, None for a root."""
    if not hasattr(graph, "pred"):
        raise ValueError(
            "parents is an undirected graph; a directed one, whose edges go "
            "from the parent to the child, says which node is the root"
        )
    labels, above = list(graph.nodes), []
    for label in labels:
        parents = list(graph.pred[label])
        if len(parents) > 1:
            raise ValueError(
                f"node {label!r} has the parents {parents[0]!r} and "
                f"{parents[1]!r}; a node of a tree has one"
            )
        above.append(parents[0] if parents else None)
    return labels, above


def _read_mapping(mapping):
    labels, above = _checks.split_mapping(mapping)
    if len(set(labels)) < len(labels):
        label = next(x for x in labels if labels.count(x) > 1)
        raise ValueError(f"parents has the node {label!r} twice")
    # A missing parent is NaN in pandas, and -1 among integers.
    has_minus_one = -1 in labels

    def is_missing(label):
        if isinstance(label, float):
            return label != label
        if isinstance(label, int | np.integer):
            return label == -1 and not has_minus_one
        return label is None

    return labels, [None if is_missing(label) else label for label in above]


def _node_classes(labels, parents, classes):
    """Returns the class of each node `[M]`, -1 for nodes with children."""
    if not _checks.is_mapping(classes):
        raise ValueError(
            "classes must be a dict from each leaf to its class where parents "
            f"is no array, not a {type(classes).__name__}"
        )
    leaves, values = _checks.split_mapping(classes)
    given = dict(zip(leaves, values, strict=True))
    inner, owners = set(parents), {}
    result = np.full(len(labels), -1)
    for number, label in enumerate(labels):
        if (number in inner) == (label in given):
            rule = "has children and so no" if label in given else "needs a"
            raise ValueError(f"node {label!r} {rule} class in classes")
        if label not in given:
            continue
        c = _checks.check_int(f"the class of {label!r}", given[label], 0)
        if c >= len(given):
            raise ValueError(
                f"node {label!r} has class {c}; the classes of {len(given)} "
                f"leaves are 0 to {len(given) - 1}"
            )
        if c in owners:
            raise ValueError(
                f"node {owners[c]!r} and node {label!r} both have class {c}"
            )
        owners[c] = label
        result[number] = c
    if len(owners) < len(given):
        label = next(label for label in given if label not in set(labels))
        raise ValueError(f"classes has {label!r}, which is no node")
    return result
