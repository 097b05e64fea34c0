"""From the names of classes to the classes."""

import difflib

import numpy as np

# More names are not searched for similar ones: that would take a second.
_MAX_SEARCHED = 20_000


class ClassLookup:
    """Finds classes by their names."""

    def __init__(self, names):
        """Takes the names of the classes `[N]`, strs."""
        self._names = names
        self._classes = dict(zip(names, range(len(names)), strict=True))
        self._has_twice = len(self._classes) < len(names)

    def __call__(self, names):
        """See `Tree.class_of`."""
        if isinstance(names, str):
            return self._class(names)
        array = np.asarray(names, object)
        classes = [self._class(name) for name in array.ravel().tolist()]
        return np.array(classes, np.int64).reshape(array.shape)

    def _class(self, name):
        if not isinstance(name, str):
            raise TypeError(f"the name of a class is a str, not {name!r}")
        c = self._classes.get(name)
        if c is None:
            raise KeyError(f"no class is named {name!r}{self._similar(name)}")
        if self._has_twice and self._names.index(name) < c:
            raise ValueError(
                f"class {self._names.index(name)} and class {c} are both named "
                f"{name!r}; tree.path_names(c) tells them apart"
            )
        return c

    def _similar(self, name):
        if len(self._names) > _MAX_SEARCHED:
            return ""
        similar = difflib.get_close_matches(name, self._names)
        return f"; similar are {', '.join(map(repr, similar))}" * bool(similar)
