"""The dynamic program over the cutoffs of an adaptive softmax.

It needs that the products of a longer tail cost no less; what the weights cost
is linear in the cutoffs. A step of the program is a divide and conquer,
O(n log n) for n ranges, where the products w of a tail satisfy the quadrangle
inequality

    w(a, c) + w(b, d) <= w(a, d) + w(b, c)    for a <= b <= c <= d

It holds for the size of a tail times its examples. A convex function that
grows, such as a floor, keeps it. So it holds for a flat tail. Tails that are
trees of their own break it.
"""

from typing import NamedTuple

import numpy as np


class Ranges(NamedTuple):
    """Ranges of values of one cutoff, ascending and apart."""

    low: np.ndarray
    high: np.ndarray  # belongs to the range, as `low` does


class TailProgram:
    """Bounds the milliseconds of J tails from below, but for what is fixed.

    Where each range is one value, the bounds are exact.
    """

    def __init__(self, costs, ranges):
        """Takes `ClusterCosts` and the J `Ranges` of the cutoffs."""
        self._costs = costs
        self._ranges = ranges

    def bounds(self):
        """Bounds the sums for each range of each cutoff: J arrays."""
        return [
            before + after
            for before, after in zip(
                self._forward(), self._backward(), strict=True
            )
        ]

    def best_of_lows(self):
        """Returns the least sum where each cutoff is a `low`, and those."""
        lows = [Ranges(r.low, r.low) for r in self._ranges]
        program = TailProgram(self._costs, lows)
        sums = program._forward()
        totals = sums[-1] + program._last_tail()
        best = int(np.argmin(totals))
        least, found = float(totals[best]), [int(lows[-1].low[best])]
        for j in range(len(lows) - 2, -1, -1):
            before = np.arange(sums[j].size)
            best = int(np.argmin(sums[j] + program._tail(j, before, best)))
            found.insert(0, int(lows[j].low[best]))
        return least, found

    def _forward(self):
        """Bounds all up to each cutoff."""
        num_tails = len(self._ranges)
        shortlist = self._costs.shortlist(self._ranges[0].low, num_tails)
        sums = [shortlist + self._weights(0)]
        for j in range(num_tails - 1):
            sums.append(
                self._weights(j + 1)
                + _least_sums(
                    sums[j],
                    lambda before, after, j=j: self._tail(j, before, after),
                    self._ranges[j + 1].low.size,
                    self._costs.is_quadrangle,
                )
            )
        return sums

    def _backward(self):
        """Bounds all from each cutoff on."""
        sums = [self._last_tail()]
        for j in range(len(self._ranges) - 2, -1, -1):
            # ~i is the i-th from the end: so `_tail` is inf where `_least_sums`
            # allows it.
            size = self._ranges[j].low.size
            later = (sums[0] + self._weights(j + 1))[::-1]
            least = _least_sums(
                later,
                lambda after, before, j=j: self._tail(j, ~before, ~after),
                size,
                self._costs.is_quadrangle,
            )
            sums.insert(0, least[::-1])
        return sums

    def _weights(self, j):
        """Returns what the weights cost more as cutoff j grows."""
        costs = self._costs
        more = costs.per_class(j) - costs.per_class(j + 1)
        return more * self._ranges[j].low

    def _tail(self, j, before, after):
        """Bounds the tail between ranges of cutoffs j and j + 1, by index.

        It is inf where the tail must be empty.
        """
        begin, end = self._ranges[j], self._ranges[j + 1]
        return np.where(
            begin.low[before] < end.high[after],
            self._costs.tail_of(j + 1, begin.high[before], end.low[after]),
            np.inf,
        )

    def _last_tail(self):
        num_tails, num_classes = len(self._ranges), self._costs.num_classes
        return self._costs.tail_of(
            num_tails, self._ranges[-1].high, num_classes
        )


def _least_sums(sums, cost, size, is_quadrangle):
    """Returns `min over r of sums[r] + cost(r, c)` for each c: `[size]`.

    Args:
      sums: `[n]`.
      cost: a function of arrays of r and c. It is inf where r is too large for
        c; the larger c is, the fewer these are.
      size: the number of c.
      is_quadrangle: whether the quadrangle inequality holds for `cost`; else
        all n x size of them are tried.
    """
    if not is_quadrangle:
        rows, columns = np.ogrid[: sums.size, :size]
        return np.min(sums[:, np.newaxis] + cost(rows, columns), axis=0)
    # The best r does not decrease as c grows. The c, counted from 1, that are
    # odd multiples of `step` lie between two for which it is known.
    step = 1 << (size.bit_length() - 1)
    best = np.full(4 * step, sums.size - 1)
    best[0] = 0
    result = np.empty(size)
    while step:
        columns = np.arange(step, size + 1, 2 * step)
        low, high = best[columns - step], best[columns + step]
        lengths = high - low + 1
        starts = np.cumsum(lengths) - lengths
        rows = np.arange(lengths.sum()) + np.repeat(low - starts, lengths)
        values = sums[rows] + cost(rows, np.repeat(columns - 1, lengths))
        least = np.minimum.reduceat(values, starts)
        is_least = np.flatnonzero(values == np.repeat(least, lengths))
        best[columns] = rows[is_least[np.searchsorted(is_least, starts)]]
        result[columns - 1] = least
        step //= 2
    return result
