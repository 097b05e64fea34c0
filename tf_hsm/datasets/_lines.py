"""The lines of a file of sparse data, and the numbers on them."""

import gzip
import re
import zlib

import numpy as np

from tf_hsm.tree.text_lines import refuse_other_files

_LARGEST = float(np.finfo(np.float32).max)
_NUMBER = re.compile("[0-9]{1,18}")  # within int64
_GZIP = b"\x1f\x8b"
_MARK = "\ufeff"


def numbered_lines(path):
    """Yields the number and the text of each line of a file.

    The file may be compressed by gzip, and may begin with a byte-order mark.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is no text in UTF-8, or a damaged file of gzip.
    """
    with open(path, "rb") as file:
        begin = file.read(8)
    is_packed = begin.startswith(_GZIP)
    if not is_packed:
        refuse_other_files(path, begin)
    with gzip.open(path) if is_packed else open(path, "rb") as file:
        number = 0
        try:
            for number, line in enumerate(file, 1):
                text = line.decode().rstrip("\r\n")
                yield number, text.removeprefix(_MARK) if number == 1 else text
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number} is not a text in UTF-8: {error}"
            ) from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(
                f"{path} is compressed by gzip and damaged: {error}"
            ) from error


def whole_numbers(line, size):
    """Returns a line of `size` whole numbers as ints; None for another line."""
    tokens = line.split()
    if len(tokens) != size or not all(map(_NUMBER.fullmatch, tokens)):
        return None
    return [int(token) for token in tokens]


def read_id(token):
    """Returns a label or a feature, whose range the caller checks."""
    if not _NUMBER.fullmatch(token.removeprefix("-")):
        raise ValueError(f"{token!r} is no whole number below 2**63")
    return int(token)


def read_pairs(text, name):
    """Returns the ids and the values of a text such as "3:0.5 42:1.25".

    A ValueError if it is no such text, or has an id, called `name`, twice.
    """
    pairs = [token.partition(":") for token in text.split()]
    ids = [read_id(token) for token, _, _ in pairs]
    if len(set(ids)) < len(ids):
        raise ValueError(f"a {name} stands there twice")
    return ids, [_read_value(token) for _, _, token in pairs]


def _read_value(token):
    value = float(token) if token.isascii() and "_" not in token else np.nan
    if not abs(value) <= _LARGEST:
        raise ValueError(f"{token!r} is no finite number of 32 bits")
    return value


class Ragged:
    """The ids of each example or row, gathered line by line.

    Messages have the `path` of the file and the `name` of an id, such as
    "label".
    """

    def __init__(self, path, name):
        """Starts without a row."""
        self._path = path
        self._name = name
        self._ids = []
        self._starts = [0]
        self._lines = []

    def __len__(self):
        """Returns the number of rows so far."""
        return len(self._lines)

    def add(self, number, ids):
        """Adds the ids of the line with this number."""
        self._ids.extend(ids)
        self._starts.append(len(self._ids))
        self._lines.append(number)

    def arrays(self, count=None):
        """Returns ids `[...]`, starts `[rows + 1]`, and the number of ids.

        `count` is the number that the file says; by default the largest id
        decides. A ValueError names the line of an id that is out of range.
        """
        ids = np.array(self._ids, np.int64)
        starts = np.array(self._starts, np.int64)
        if count is None:
            count = int(ids.max(initial=-1)) + 1
        bad = np.flatnonzero((ids < 0) | (ids >= count))
        if bad.size:
            row = np.searchsorted(starts, bad[0], "right") - 1
            found = ids[bad[0]]
            hint = ""
            if found == count and not (ids == 0).any():
                hint = (
                    f"; no line has the {self._name} 0, so that the file seems "
                    "to count from 1: subtract 1 from each"
                )
            raise ValueError(
                f"{self._path}, line {self._lines[row]} has the {self._name} "
                f"{found}; {self._name}s are 0 to {count - 1}{hint}"
            )
        return ids, starts, count


def padded(starts, values, padding):
    """Returns values `[rows, longest]`, short rows with padding behind."""
    sizes = np.diff(starts)
    filled = np.full([sizes.size, sizes.max(initial=0)], padding, values.dtype)
    filled[np.arange(filled.shape[1]) < sizes[:, np.newaxis]] = values
    return filled
