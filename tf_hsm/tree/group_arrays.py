"""The base of trees and forests: three arrays that cannot change."""

import functools
import hashlib

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree import arrays
from tf_hsm.tree.check import check_arrays, check_binary
from tf_hsm.tree.immutable import Immutable


class GroupArrays(Immutable):
    """The groups of one tree or of several: the base of `Tree` and `Forest`."""

    group_offsets: np.ndarray
    group_parents: np.ndarray
    class_rows: np.ndarray
    pinned: bool = False

    def _set_arrays(self, *group_arrays, is_tree, pinned):
        """Copies and checks the three arrays."""
        for name, array in zip(
            arrays.TreeArrays._fields, group_arrays, strict=True
        ):
            copy = _checks.check_integers(name, array).copy()
            self.__dict__[name] = read_only(copy)
        check_arrays(self._arrays, is_tree)
        if pinned:
            check_binary(self.group_offsets)
        self.__dict__["pinned"] = bool(pinned)

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

    @property
    def depth(self) -> int:
        """L, the length of the longest path from a root."""
        return self._by_level[1].size - 1

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
    def class_ranks(self) -> np.ndarray:
        """`[N]` int64, the place of each leaf in depth-first order.

        The leaves of a tree come after the leaves of the trees before it. The
        classes below a row are an interval of ranks.
        """
        by_level, levels, _ = self._by_level
        return read_only(arrays.class_ranks(by_level, levels))

    @functools.cached_property
    def row_spans(self) -> np.ndarray:
        """`[R, 2]` int64, the ranks of the classes at or below each row.

        They go from the first number to one before the second.
        """
        by_level, levels, rows = self._by_level
        return read_only(arrays.row_spans(by_level, levels)[rows])

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
    def _by_level(self):
        """What `arrays.sort_by_level` returns for the arrays."""
        return arrays.sort_by_level(self._arrays)

    @property
    def _options(self):
        """The arguments of the constructor beside the arrays, by name."""
        return {"pinned": self.pinned}

    def __reduce__(self):
        """Pickles what it is made of, which is checked again when read."""
        make = functools.partial(type(self), **self._options)
        return make, tuple(self._arrays)

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
