"""Trees that are given by nested lists and dicts: `from_nested`."""

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
    parents, classes, names = [-1], [-1], [""]
    leaves = _Leaves()
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
            classes.append(-1)
            stack.append((child, item, _children(item)))
            open_lists.add(id(item))
        else:
            if name is None and isinstance(item, str):
                name, item = item, None
            classes.append(leaves.next_class(name, item))
        names.append(name)
    leaves.check()
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


class _Leaves:
    """The classes of the leaves, in order."""

    def __init__(self):
        self._seen = set()
        self._are_numbered = None  # by the user

    def next_class(self, name, item):
        """Returns the class of a leaf; `item` is it, or None."""
        is_numbered = item is not None or name is None
        if self._are_numbered not in (None, is_numbered):
            raise ValueError(
                f"nested_lists has the leaf {name if item is None else item!r} "
                "among leaves of the other kind; either all leaves have a "
                "class, an integer, or none has one"
            )
        self._are_numbered = is_numbered
        c = len(self._seen)
        if is_numbered:
            c = _checks.check_int("a class in nested_lists", item, 0)
        if c in self._seen:
            raise ValueError(f"class {c} occurs twice in nested_lists")
        self._seen.add(c)
        return c

    def check(self):
        """Raises a ValueError unless the classes are 0 to N - 1."""
        size = len(self._seen)
        for c in range(size):
            if c not in self._seen:
                raise ValueError(
                    f"class {c} is missing from nested_lists; its {size} "
                    f"classes must be 0 to {size - 1}"
                )
