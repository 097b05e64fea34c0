"""Trees that are given by nested lists and dicts: `from_nested`."""

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.builders.nodes import from_parents

_END = object()


def from_nested(nested_lists):
    """Returns the arguments of `Tree` for `Tree.from_nested`."""
    if not isinstance(nested_lists, list | tuple | dict):
        raise ValueError(
            "nested_lists must be a list or a dict, not "
            f"{type(nested_lists).__name__}"
        )
    parents, names = [-1], [""]
    leaf_nodes, leaves = [], []
    stack = [(0, nested_lists, _children(nested_lists))]
    open_lists = {id(nested_lists)}
    while stack:
        node, items, rest = stack[-1]
        name, item = next(rest, (None, _END))
        if item is _END:
            if node == len(parents) - 1:
                kind = "dict" if isinstance(items, dict) else "list"
                owner = f" for {names[node]!r}" if names[node] else ""
                raise ValueError(
                    f"nested_lists holds an empty {kind}{owner}; a leaf is its "
                    "class, or None in a dict"
                )
            stack.pop()
            open_lists.remove(id(items))
            continue
        child = len(parents)
        parents.append(node)
        if isinstance(item, list | tuple | dict):
            if id(item) in open_lists:
                raise ValueError("nested_lists holds a list inside itself")
            stack.append((child, item, _children(item)))
            open_lists.add(id(item))
        else:
            if name is None and isinstance(item, str):
                name, item = item, None
            leaf_nodes.append(child)
            leaves.append((name, item))
        names.append(name)
    classes = np.full(len(parents), -1)
    classes[leaf_nodes] = _leaf_classes(leaves)
    if all(name is None for name in names[1:]):
        names = None
    else:
        names = [name or "" for name in names]
    return from_parents(parents, classes, names)


def _children(items):
    """Iterates over the names of children, None in a list, and the children."""
    if not isinstance(items, dict):
        return ((None, item) for item in items)
    for key in items:
        if not isinstance(key, str):
            raise ValueError(
                f"nested_lists has the key {key!r}; a key is a name, a str"
            )
    return iter(items.items())


def _leaf_classes(leaves):
    """Returns the classes of leaves, pairs of a name and a class or None."""
    are_numbered = [item is not None or name is None for name, item in leaves]
    for (name, item), is_numbered in zip(leaves, are_numbered, strict=True):
        if is_numbered != are_numbered[0]:
            raise ValueError(
                f"nested_lists has the leaf {name if item is None else item!r} "
                "among leaves of the other kind; either all leaves have a "
                "class, an integer, or none has one"
            )
    size = len(leaves)
    if not are_numbered[0]:
        return range(size)
    seen = {}
    for _, item in leaves:
        c = _checks.check_int("a class in nested_lists", item, 0)
        if c in seen:
            raise ValueError(f"class {c} occurs twice in nested_lists")
        seen[c] = True
    for c in range(size):
        if c not in seen:
            raise ValueError(
                f"class {c} is missing from nested_lists; its {size} "
                f"classes must be 0 to {size - 1}"
            )
    return list(seen)
