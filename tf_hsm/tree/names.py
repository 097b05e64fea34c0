"""The names of the rows of a tree, in a tenth of the memory of strs.

All of it takes O(R) work, most of it on whole arrays.
"""

import difflib
import itertools
from typing import NamedTuple

import numpy as np

from tf_hsm import _checks

# Any str survives, the names of files among them that are no valid text.
_CODEC = "utf-8", "surrogatepass"
# More names are not searched for similar ones: that would take a second.
_MAX_SEARCHED = 20_000


class Names(NamedTuple):
    """One name per row."""

    utf8: np.ndarray  # [bytes] uint8, the names one after the other
    offsets: np.ndarray  # [R + 1] int64, the first byte of each, and the end


def names_of_rows(names, num_rows):
    """Returns checked `Names` of `names`: R strs, `Names`, or None."""
    if names is None:
        return None
    if isinstance(names, Names):
        return _check(names, num_rows)
    return _pack(check_strs(names, num_rows, "row"))


def check_strs(names, size, what):
    """Returns `names` as a list of `size` strs.

    `what` has a name, such as "row". A ValueError says which name is wrong.
    """
    if isinstance(names, str | bytes):
        raise ValueError(f"names must be a list of strs, not {names!r}")
    try:
        is_array = isinstance(names, np.ndarray)
        names = names.tolist() if is_array else list(names)
        num_names = len(names)
    except TypeError as error:
        raise ValueError(
            f"names must be a list of strs, not a {type(names).__name__}"
        ) from error
    if num_names != size:
        raise ValueError(
            f"names has {num_names} entries; there must be one for each {what}"
            f", which are {size}"
        )
    for number, name in enumerate(names):
        if not isinstance(name, str):
            raise ValueError(
                f"the name of {what} {number} must be a str, not {name!r}"
            )
    return names


def replace_class_names(names, class_rows, row_names):
    """Returns `[R]` strs: `row_names`, but `names [N]` for the leaves."""
    result = np.array(row_names, object)
    result[class_rows] = np.array(
        check_strs(names, class_rows.size, "class"), object
    )
    return result


def unpack_names(names):
    """Returns `Names` as an array of R objects of type str."""
    text = str(names.utf8, *_CODEC)
    # A character begins at every byte but bytes of the form 10xxxxxx.
    before = np.cumsum(_begins_character(names.utf8))
    ends = np.append(0, before)[names.offsets]
    result = np.empty(ends.size - 1, object)
    result[:] = [text[i:j] for i, j in itertools.pairwise(ends.tolist())]
    return result


def name_of_row(names, row):
    """Returns the name of one row; ValueError if there are no names."""
    if names is None:
        raise no_names()
    begin, end = names.offsets[row : row + 2]
    return str(names.utf8[begin:end], *_CODEC)


def names_of_classes(names, class_rows, classes):
    """Returns the names of classes: see `Tree.class_name`."""
    classes = getattr(classes, "classes", classes)
    if np.ndim(classes) == 0:
        c = _checks.check_class(classes, class_rows.size)
        return name_of_row(names, class_rows[c])
    classes = np.asarray(classes)
    if classes.dtype.kind not in "iu" and classes.size:
        raise IndexError(f"classes are integers, not {classes.dtype}")
    found, places = np.unique(classes, return_inverse=True)
    for c in found[found != -1]:
        _checks.check_class(c, class_rows.size)
    if names is None:
        raise no_names()
    texts = np.array(
        ["" if c == -1 else name_of_row(names, class_rows[c]) for c in found],
        object,
    )
    return texts[places.reshape(classes.shape)]


class NameLookup:
    """Finds what has a name, by its number."""

    def __init__(self, names, rows, what, how_to_tell):
        """Takes names `[R]`, and the rows of 0, 1, ..., such as each "class".

        `how_to_tell` says what tells two of one name apart, for the message.

        Raises:
          ValueError: there are no names.
        """
        if names is None:
            raise no_names()
        self._names = names = names[rows].tolist()
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


def no_names():
    """Returns the ValueError that a tree has no names."""
    return ValueError(
        "the tree has no names; tree.with_class_names(names) gives it some"
    )


def _pack(names):
    """Returns a list of strs as `Names`."""
    utf8 = np.frombuffer("".join(names).encode(*_CODEC), np.uint8)
    ends = np.zeros(len(names) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, names), np.int64), out=ends[1:])
    starts = np.append(np.flatnonzero(_begins_character(utf8)), utf8.size)
    return Names(utf8, starts[ends])


def _begins_character(utf8):
    return utf8 & 0xC0 != 0x80


def _check(names, num_rows):
    """Returns `Names` that were read from somewhere, or a ValueError."""
    utf8 = np.ascontiguousarray(names.utf8)
    offsets = _checks.check_integers("offsets of the names", names.offsets)
    if utf8.dtype != np.uint8 or utf8.ndim != 1:
        raise ValueError("the names are not bytes")
    if offsets.size != num_rows + 1:
        raise ValueError(f"{offsets.size - 1} names for {num_rows} rows")
    if offsets[0] != 0 or offsets[-1] != utf8.size:
        raise ValueError(
            f"the names are bytes {offsets[0]} to {offsets[-1]} of {utf8.size}"
        )
    bad = offsets[1:] < offsets[:-1]
    if not bad.any():
        bad = ~np.append(_begins_character(utf8), True)[offsets[:-1]]
    if bad.any():
        raise ValueError(f"the name of row {np.argmax(bad)} is cut wrongly")
    try:
        str(utf8, *_CODEC)
    except UnicodeDecodeError as error:
        raise ValueError(f"the names are not UTF-8: {error}") from error
    return Names(utf8, offsets)
