"""Reads the fields of a binary file that may be damaged or hostile."""

import os
import struct

import numpy as np

from tf_hsm.converters._converted_model import check_finite


class BinaryReader:
    """Takes little-endian fields from the front of a file.

    No memory is taken for a field before the file is known to hold it, and
    whatever the file holds, all errors are ValueErrors made by `error`.
    """

    def __init__(self, file, description):
        """Begins at the start of a buffered file that was opened with "rb".

        `description` is the expected format, for messages.
        """
        self._file = file
        self._description = description
        self._remaining = os.fstat(file.fileno()).st_size

    @property
    def remaining(self):
        """The number of bytes that are left."""
        return self._remaining

    def error(self, reason):
        """Returns a ValueError that names the file."""
        return ValueError(
            f"cannot read {self._file.name!r} as {self._description}: {reason}"
        )

    def check(self, name, value, minimum, maximum):
        """Raises an error unless `minimum <= value <= maximum`."""
        if not minimum <= value <= maximum:
            raise self.error(
                f"{name} is {value}; it must be {minimum} to {maximum}"
            )

    def need(self, name, size):
        """Raises an error unless `size` bytes are left."""
        if size > self._remaining:
            raise self.error(
                f"it is cut short or damaged: {name} needs {size} bytes, "
                f"{self._remaining} are left"
            )

    def numbers(self, name, layout):
        """Takes the numbers of a `struct` layout, as a tuple."""
        return struct.unpack("<" + layout, self._take(name, layout))

    def text(self, name):
        """Takes bytes up to a zero byte, which is left out."""
        parts = []
        while not parts or not parts[-1].endswith(b"\0"):
            # All that is buffered; nothing at the end of the file alone.
            ahead = self._file.peek()
            if not ahead:
                raise self.error(
                    f"it is cut short or damaged: it ends within {name}"
                )
            length = ahead.find(b"\0") + 1 or len(ahead)
            parts.append(self._file.read(length))
            self._remaining -= length
        return b"".join(parts)[:-1]

    def matrix(self, name, rows, columns):
        """Takes `[rows, columns]` float32 behind that shape."""
        shape = self.numbers(name, "2q")
        if shape != (rows, columns):
            raise self.error(
                f"{name} has the shape {list(shape)}; it must be "
                f"{[rows, columns]}"
            )
        size = 4 * rows * columns
        self.need(name, size)
        array = np.empty(shape, "<f4")
        if self._file.readinto(array) != size:
            raise self.error(f"it was cut short while {name} was read")
        self._remaining -= size
        check_finite(name, array, self.error)
        return array

    def _take(self, name, layout):
        size = struct.calcsize("<" + layout)
        self.need(name, size)
        data = self._file.read(size)
        if len(data) != size:
            raise self.error(f"it was cut short while {name} was read")
        self._remaining -= size
        return data
