"""From names of classes or rows to these."""

import difflib

import numpy as np

# More names are not searched for similar ones: that would take a second.
_MAX_SEARCHED = 20_000


class NameLookup:
    """Finds what has a name, by its number."""

    def __init__(self, names, what, how_to_tell):
        """Takes the names of 0, 1, ..., strs, such as of each "class".

        `how_to_tell` says what tells two of one name apart, for the message.
        """
        self._names = names
        self._what = what
        self._how_to_tell = how_to_tell
        self._numbers = dict(zip(names, range(len(names)), strict=True))
        self._has_twice = len(self._numbers) < len(names)

    def __call__(self, names):
        """See `Tree.class_of`."""
        if isinstance(names, str):
            return self._number(names)
        array = np.asarray(names, object)
        numbers = [self._number(name) for name in array.ravel().tolist()]
        return np.array(numbers, np.int64).reshape(array.shape)

    def _number(self, name):
        what = self._what
        if not isinstance(name, str):
            raise TypeError(f"the name of a {what} is a str, not {name!r}")
        number = self._numbers.get(name)
        if number is None:
            raise KeyError(f"no {what} is named {name!r}{self._similar(name)}")
        if self._has_twice and self._names.index(name) < number:
            raise ValueError(
                f"{what} {self._names.index(name)} and {what} {number} are "
                f"both named {name!r}; {self._how_to_tell}"
            )
        return number

    def _similar(self, name):
        if len(self._names) > _MAX_SEARCHED:
            return ""
        similar = difflib.get_close_matches(name, self._names)
        return f"; similar are {', '.join(map(repr, similar))}" * bool(similar)
