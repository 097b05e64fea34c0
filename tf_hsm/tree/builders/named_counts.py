"""Counts of classes as builders take them: with names or without."""

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
    if _checks.is_mapping(counts):
        keys, numbers = _checks.split_mapping(counts)
        if all(isinstance(key, str) for key in keys):
            names, counts = keys, numbers
            _refuse_twice(names)
        else:
            counts = _checks.by_class("counts", counts)
    check_array_fits("counts", counts, class_bytes)
    return _checks.check_counts(counts), names


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
