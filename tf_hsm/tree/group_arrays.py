"""The base of trees and forests: three arrays that cannot change."""

import functools
import hashlib

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree import arrays
from tf_hsm.tree.immutable import Immutable


class GroupArrays(Immutable):
    """The groups of one tree or of several, and the leaf row of each class.

    Two objects of one class are equal, and have one hash, if their three
    arrays are equal and both or neither are pinned.

    Attributes:
      group_offsets: `[G + 1]` int64; group g owns the rows
        `group_offsets[g]` to `group_offsets[g + 1] - 1`.
      group_parents: `[G]` int64, the row above each group, -1 for a root's.
      class_rows: `[N]` int64, the leaf row of each class.
      pinned: a bool: whether the second row of each group, which has two, has
        the logit 0 and no weights.
    """

    group_offsets: np.ndarray
    group_parents: np.ndarray
    class_rows: np.ndarray
    pinned: bool = False
    class_ranks: np.ndarray
    row_spans: np.ndarray

    def _set_arrays(self, group_offsets, group_parents, class_rows):
        """Copies the three arrays; a ValueError if they are no integers."""
        for name, array in (
            ("group_offsets", group_offsets),
            ("group_parents", group_parents),
            ("class_rows", class_rows),
        ):
            copy = _checks.check_integers(name, array).copy()
            self.__dict__[name] = read_only(copy)

    @property
    def num_classes(self) -> int:
        """N, the number of leaves."""
        return self.class_rows.size

    @property
    def num_groups(self) -> int:
        """G, the number of nodes with children, each root among them."""
        return self.group_parents.size

    @property
    def num_rows(self) -> int:
        """R = N + G - num_roots, the number of nodes that are no root."""
        return int(self.group_offsets[-1])

    @property
    def num_weight_rows(self) -> int:
        """The rows of the weights: R, or G of a pinned tree."""
        return self.num_groups if self.pinned else self.num_rows

    @property
    def num_roots(self) -> int:
        """The number of trees; 1 for a `Tree`."""
        return self.root_groups.size

    @functools.cached_property
    def root_groups(self) -> np.ndarray:
        """`[num_roots]` int64, the first group of each tree; ascending."""
        return read_only(np.flatnonzero(self.group_parents < 0))

    @functools.cached_property
    def row_groups(self) -> np.ndarray:
        """`[R]` int64, the group of each row."""
        return read_only(arrays.row_groups(self.group_offsets))

    @functools.cached_property
    def row_classes(self) -> np.ndarray:
        """`[R]` int64, the class of each leaf row, -1 for an inner row."""
        return read_only(arrays.inverse(self.num_rows, self.class_rows, 0))

    @functools.cached_property
    def row_children(self) -> np.ndarray:
        """`[R]` int64, the group below each row, -1 for a leaf."""
        return read_only(arrays.row_children(self._arrays))

    @functools.cached_property
    def row_ranks(self) -> np.ndarray:
        """`[R]` int64, the place of each row in depth-first order.

        A row comes before those below it.
        """
        return read_only(arrays.row_ranks(self.row_spans))

    def classes_below(self, row: int) -> np.ndarray:
        """Returns the classes at or below a row, ascending.

        Raises:
          IndexError: `row` is not one of the rows 0 to R - 1.
        """
        row = _checks.check_row(row, self.num_rows)
        first, past = self.row_spans[row]
        ranks = self.class_ranks
        return np.flatnonzero((ranks >= first) & (ranks < past))

    @property
    def _group_weight_rows(self):
        """`[G]` int64, the rows of the weights that each group has."""
        return np.diff(self.group_offsets) // (1 + self.pinned)

    @property
    def _arrays(self):
        return arrays.TreeArrays(
            self.group_offsets, self.group_parents, self.class_rows
        )

    @functools.cached_property
    def _hash(self):
        digest = hashlib.blake2b(digest_size=8)
        for array in self._arrays:
            digest.update(array)
        return int.from_bytes(digest.digest(), "little")

    def __hash__(self):
        """Hashes the three arrays, and whether they are pinned."""
        return hash((self._hash, self.pinned))

    def __eq__(self, other):
        """Compares the three arrays, and whether they are pinned."""
        if not (isinstance(other, type(self)) or isinstance(self, type(other))):
            return NotImplemented
        return self is other or (
            self.pinned == other.pinned
            and all(
                np.array_equal(mine, theirs)
                for mine, theirs in zip(
                    self._arrays, other._arrays, strict=True
                )
            )
        )


def read_only(array):
    """Returns the array, which nobody can write to any more."""
    array.flags.writeable = False
    return array
