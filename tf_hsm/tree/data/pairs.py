"""Counts of each class with each feature of its context, sparse."""

from typing import NamedTuple

import numpy as np

_BUFFER = 1 << 24  # pairs that are sorted together
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
        """Keeps the `size` most frequent features, with numbers from 0 on."""
        totals = np.bincount(self.features, self.counts)
        kept = np.flatnonzero(totals)
        if kept.size > size:
            kept = np.sort(np.argsort(-totals, kind="stable")[:size])
        numbers = np.full(totals.size, -1)
        numbers[kept] = np.arange(kept.size)
        features = numbers[self.features]
        return self._where(features >= 0)._replace(
            features=features[features >= 0]
        )

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
            features = (np.cumsum(occurs) - 1)[self.features]
        else:
            _, features = np.unique(self.features, return_inverse=True)
        return self._replace(features=features)

    def merged(self, features):
        """Returns the pairs with other features, `[P]`, equal ones summed."""
        keys = (self.classes << _FEATURE_BITS) | features
        order = np.argsort(keys, kind="stable")
        return _pairs(*_summed(keys[order], self.counts[order]))

    def _where(self, mask):
        return Pairs(*(array[mask] for array in self))


class PairCounter:
    """Counts pairs that come in batches, in the memory of the distinct ones.

    Sorted runs of pairs wait until there is another of half their size: each
    pair is merged a logarithmic number of times.
    """

    def __init__(self):
        """Starts with no pair."""
        self._waiting, self._num_waiting = [], 0
        self._runs = []  # of sorted keys and their counts, the largest first

    def add(self, classes, features):
        """Counts a pair for each entry; features are below 2**32."""
        keys = classes.astype(np.int64) << _FEATURE_BITS
        keys |= features.astype(np.int64)
        self._waiting.append(keys)
        self._num_waiting += keys.size
        if self._num_waiting >= _BUFFER:
            self._sort_waiting()

    def pairs(self):
        """Returns the `Pairs` that were added."""
        self._sort_waiting()
        while len(self._runs) > 1:
            self._merge_last()
        return _pairs(*self._runs[0])

    def _sort_waiting(self):
        keys = np.concatenate([np.zeros(0, np.int64), *self._waiting])
        self._waiting, self._num_waiting = [], 0
        keys.sort()
        self._runs.append(_summed(keys, np.ones(keys.size, np.int64)))
        while len(self._runs) > 1 and (
            2 * self._runs[-1][0].size >= self._runs[-2][0].size
        ):
            self._merge_last()

    def _merge_last(self):
        pairs = zip(self._runs.pop(), self._runs.pop(), strict=True)
        keys, counts = (np.concatenate(pair) for pair in pairs)
        # A stable sort merges two sorted runs in one pass.
        order = np.argsort(keys, kind="stable")
        self._runs.append(_summed(keys[order], counts[order]))


def _pairs(keys, counts):
    mask = (1 << _FEATURE_BITS) - 1
    return Pairs(keys >> _FEATURE_BITS, keys & mask, counts)


def _summed(keys, counts):
    """Returns the distinct keys of sorted ones, and the sums of counts."""
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    if firsts.size == keys.size:
        return keys, counts
    return keys[firsts], np.add.reduceat(counts, firsts)
