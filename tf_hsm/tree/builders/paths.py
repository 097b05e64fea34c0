"""Trees that are given by a path for each class: `from_paths`."""

import itertools
from collections.abc import Iterable, Mapping, Set

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.builders.kind import Kind
from tf_hsm.tree.builders.nodes import from_parents
from tf_hsm.tree.class_files import read_paths


def from_paths(paths):
    """Returns the arguments of `Tree` for `Tree.from_paths`."""
    paths = _check_paths(paths)
    parents, classes, first_class = [-1], [-1], [0]
    names = [""]
    nodes = {}
    for c, path in enumerate(paths):
        if isinstance(path, np.ndarray) and path.ndim == 1:
            path = path.tolist()
        if not isinstance(path, list | tuple):
            raise ValueError(
                f"the path of class {c} must be a tuple of keys, not {path!r}"
            )
        if not path:
            raise ValueError(f"the path of class {c} is empty")
        node = 0
        for key in path:
            if classes[node] >= 0:
                raise ValueError(
                    f"the path of class {classes[node]} is the beginning of "
                    f"the path of class {c}"
                )
            try:
                child = nodes.setdefault((node, key), len(parents))
            except TypeError as error:
                raise ValueError(
                    f"the path of class {c} has the key {key!r}, which is "
                    "not hashable"
                ) from error
            if child == len(parents):
                parents.append(node)
                classes.append(-1)
                first_class.append(c)
                names.append(key)
            node = child
        if classes[node] >= 0:
            raise ValueError(
                f"class {classes[node]} and class {c} have the same path"
            )
        if first_class[node] != c:
            raise ValueError(
                f"the path of class {c} is the beginning of the path of "
                f"class {first_class[node]}"
            )
        classes[node] = c
    if len(parents) == 1:
        raise ValueError("paths is empty; a tree has at least one class")
    if not all(isinstance(name, str) for name in names):
        names = None
    return from_parents(parents, classes, names)


def _check_paths(paths):
    """Returns an iterable of paths; rows of an array end where padding is."""
    _checks.refuse_sparse("paths", paths, "a list of keys for each class")
    if getattr(paths, "ndim", None) == 2:
        is_masked = np.ma.getmaskarray(paths)
        rows = np.ma.getdata(paths) if is_masked.any() else np.asarray(paths)
        return map(_unpadded, itertools.count(), rows.tolist(), is_masked)
    is_array = isinstance(paths, np.ndarray) and paths.ndim == 1
    # Classes are in the order of the paths: a set has none.
    is_other = isinstance(paths, str | bytes | Set | Mapping | np.ndarray)
    if not is_array and (is_other or not isinstance(paths, Iterable)):
        raise ValueError(
            "paths must be a list with a tuple of keys for each class, or an "
            f"array [N, L], not {paths!r}"
        )
    return paths


def _unpadded(c, path, is_masked):
    """Returns the keys before the padding of class `c`, a list."""
    is_key = [
        not masked and not _is_padding(key)
        for key, masked in zip(path, is_masked, strict=True)
    ]
    length = sum(is_key)
    if not all(is_key[:length]):
        place = is_key.index(False)
        raise ValueError(
            f"the path of class {c} has {path[place]!r} at {place}, before a "
            "key; it may only be at the end"
        )
    return path[:length]


def _is_padding(key):
    if isinstance(key, float):
        return key != key
    return key is None or key == "" or key == -1


PATHS = Kind(
    "paths",
    {"paths:FILE": "one path per class, such as animal/cat, on a line"},
    lambda tree_class, value, options: tree_class.from_paths(read_paths(value)),
    needs="a file: paths:FILE",
)
