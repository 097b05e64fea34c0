"""Counts of each class with each feature of its context, sparse."""

from typing import NamedTuple

import numpy as np

_BUFFER = 1 << 24  # pairs that are sorted together, at least
_FEATURE_BITS = 32


class Pairs(NamedTuple):
    """The pairs of a class and a feature that occur, sorted.

    Attributes:
      classes: `[P]` int64, ascending.
      features: `[P]` int64, ascending within a class.
      counts: `[P]` int64, how often the pair occurs, at least once.
    """

    classes: np.ndarray
    features: np.ndarray
    counts: np.ndarray

    def most_frequent(self, size):
        """Keeps the `size` most frequent features, in the same order.

        Features must be `renumbered`, and then are again.
        """
        if self.features.max(initial=-1) < size:
            return self
        totals = np.bincount(self.features, self.counts)
        kept = np.sort(np.argsort(-totals, kind="stable")[:size])
        numbers = np.full(totals.size, -1)
        numbers[kept] = np.arange(size)
        features = numbers[self.features]
        is_kept = features >= 0
        return self._where(is_kept)._replace(features=features[is_kept])

    def sampled(self, size, rng):
        """Returns all pairs of random features, `size` pairs at most.

        If the first feature has more, it is the only one.
        """
        sizes = np.bincount(self.features)
        order = rng.permutation(sizes.size)
        is_kept = np.zeros(sizes.size, bool)
        is_kept[order[np.cumsum(sizes[order]) <= size]] = True
        is_kept[order[:1]] = True
        return self._where(is_kept[self.features])

    def renumbered(self):
        """Returns the pairs with features from 0 on, in the same order."""
        largest = int(self.features.max(initial=-1))
        if largest < 8 * self.features.size:
            # Their places in a table, in less time than by sorting.
            occurs = np.zeros(largest + 1, bool)
            occurs[self.features] = True
            if occurs.all():
                return self
            features = (np.cumsum(occurs) - 1)[self.features]
        else:
            _, features = np.unique(self.features, return_inverse=True)
        return self._replace(features=features)

    def merged(self, size):
        """Returns the pairs with every `size` features in a row as one."""
        features = self.features // size
        is_first = np.diff(self.classes, prepend=-1) != 0
        is_first |= np.diff(features, prepend=-1) != 0
        firsts = np.flatnonzero(is_first)
        counts = self.counts
        if firsts.size:
            counts = np.add.reduceat(counts, firsts)
        return Pairs(self.classes[firsts], features[firsts], counts)

    def _where(self, mask):
        kept = np.flatnonzero(mask)
        return Pairs(*(array[kept] for array in self))


class PairCounter:
    """Counts pairs that come in batches, in the memory of the distinct ones.

    Pairs wait until they are half as many as the distinct ones: all sorting
    together takes time in proportion to the number of pairs.
    """

    def __init__(self):
        """Starts with no pair."""
        self._waiting = np.empty(_BUFFER, np.int64)
        self._num_waiting = 0
        self._known = None  # distinct keys and their counts

    def add(self, classes, features):
        """Counts a pair for each entry of int64; features are below 2**32."""
        while classes.size:
            if self._num_waiting == self._waiting.size:
                self._count_waiting()
            keys = self._waiting[self._num_waiting :][: classes.size]
            np.left_shift(classes[: keys.size], _FEATURE_BITS, out=keys)
            keys |= features[: keys.size]
            self._num_waiting += keys.size
            classes, features = classes[keys.size :], features[keys.size :]

    def pairs(self):
        """Returns the `Pairs` that were added, and starts anew."""
        self._count_waiting()
        keys, counts = (np.asarray(tensor) for tensor in self._known)
        self.__init__()
        mask = (1 << _FEATURE_BITS) - 1
        return Pairs(keys >> _FEATURE_BITS, keys & mask, counts)

    def _count_waiting(self):
        from tf_hsm.runtime.array_ops import count_keys

        waiting = self._waiting[: self._num_waiting]
        self._known = count_keys(waiting, self._known)
        self._num_waiting = 0
        size = self._known[0].shape[0] // 2
        if size > self._waiting.size:
            self._waiting = np.empty(size, np.int64)
