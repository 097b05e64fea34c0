"""Counts of classes as builders take them: with names or without."""

import operator

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.memory import check_array_fits
from tf_hsm.tree.names import replace_class_names


def split_counts(counts, class_bytes):
    """Returns counts `[N]`, int64 or float64, and N names or None.

    Keys of a mapping that are strs are the names of the classes, which stand in
    its order. Keys that are integers are the classes themselves. `class_bytes`
    is what the builder takes for a class.

    Raises:
      ValueError: a count or a key is not usable; names it.
    """
    names = None
    if is_mapping(counts):
        keys, counts = split_mapping(counts)
        if all(isinstance(key, str) for key in keys):
            names = keys
            _refuse_twice(names)
        else:
            counts = np.asarray(counts)[_places(keys)]
    check_array_fits("counts", counts, class_bytes)
    return _checks.check_counts(counts), names


def is_mapping(counts):
    """Returns whether counts have keys that are names; a DataFrame has not."""
    return hasattr(counts, "items") and getattr(counts, "ndim", 1) == 1


def split_mapping(mapping):
    """Returns the keys, a list, and the values of a dict or a Series."""
    values = mapping.values
    values = list(values()) if callable(values) else np.asarray(values)
    return list(mapping.keys()), values


def with_names(arrays, names, counts):
    """Returns the arguments of `Tree`, where `names` are None or of classes."""
    if names is not None:
        row_names = [""] * int(arrays.group_offsets[-1])
        names = replace_class_names(names, arrays.class_rows, row_names)
    return {**arrays._asdict(), "names": names, "counts": counts}


def _refuse_twice(names):
    """Raises a ValueError if two classes have one name, as a Series can."""
    if len(set(names)) == len(names):
        return
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(
                f"counts has {name!r} twice; each name must have one count"
            )
        seen.add(name)


def _places(keys):
    """Returns the place of each class `[N]` among integer keys."""
    classes = []
    for key in keys:
        try:
            if isinstance(key, bool | np.bool_):
                raise TypeError
            classes.append(operator.index(key))
        except TypeError as error:
            raise ValueError(
                f"counts has the key {key!r}; the keys must all be strs, the "
                "names of the classes, or all integers, the classes"
            ) from error
    places = {c: place for place, c in enumerate(classes)}
    missing = next((c for c in range(len(keys)) if c not in places), None)
    if missing is not None:
        raise ValueError(
            f"counts has no key {missing}; {len(keys)} integer keys must be "
            f"the classes 0 to {len(keys) - 1}: give a class that does not "
            "occur the count 0"
        )
    return [places[c] for c in range(len(keys))]
