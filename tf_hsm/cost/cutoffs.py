"""Frequency clusters of an adaptive softmax, by dynamic programming.

The n most frequent classes are the head, whose group also holds one row for
each of J tails; the others, in the order of their frequency, are cut into the
tails (Grave et al., 2016). With P(m) the probability of the m most frequent
classes and g the cost of a group (`CostModel`), a step of B examples costs

    g(n + J, B, D) + sum over the tails [m, m') of g(m' - m, B_t, d_t)
    B_t = B (P(m') - P(m))

A tail narrower than the inputs, d_t < D, also costs the projection of its
examples, g(d_t, B_t, D).

`_search` finds the least sum among all cutoffs, whatever the constants of the
model: a dynamic program bounds it from below over ranges of cutoffs, and those
that may hold it are cut up until each is one cutoff. That asks only that the
products of a longer tail cost no less; what the weights cost is linear in the
cutoffs. Each step of the program is a divide and conquer, O(n log n) for n
ranges, because the products w of a flat tail satisfy the quadrangle inequality

    w(a, c) + w(b, d) <= w(a, d) + w(b, c)    for a <= b <= c <= d

It holds for the size of a tail times its examples, and a convex function that
grows, such as a floor, keeps it. Tails that are trees of their own break it:
theirs is the least sum among `_GRID_SIZE` values of each cutoff, in geometric
progression.
"""

import math
from typing import NamedTuple

import numpy as np

from tf_hsm import _checks
from tf_hsm.cost.clusters import ClusterCosts

_MAX_AUTO_CLUSTERS = 8
_MIN_AUTO_WIDTH = 8
_FIRST_RANGES = 256
_PARTS = 8  # of a range that is cut up
_GRID_SIZE = 256
# Sums that differ by less count as equal: they are rounded.
_ROUNDING = 1e-12


def cutoffs(
    counts,
    num_clusters="auto",
    *,
    batch,
    width,
    div_value=1.0,
    tail="flat",
    min_head=None,
    cost_model=None,
):
    """Returns the cutoffs of the clusters that take the least time.

    The head holds the classes below the first cutoff; tail j those from cutoff
    j on, `width // div_value**j` wide, as in PyTorch's adaptive softmax. Tails
    as wide as the inputs are groups of one tree, in one call; narrower ones
    take a call each, and one for their projection.

    Args:
      counts: `[N]`, how often each class occurs, the most frequent first; when
        all are zero, all are alike.
      num_clusters: J, the number of tails; or several to choose from, such as
        `range(5)`; or "auto" for 1 to 8, but for more than 1 only if the last
        tail is at least 8 wide, or as wide as the first. Where not even 1 is
        possible, "auto" is 0: a flat softmax.
      batch: B, the examples in a step.
      width: D, that of the inputs.
      div_value: how much narrower each tail is than the one before; at least 1.
      tail: "flat" if each tail is one group; "two_level", or the branching of
        a balanced tree, at least 2, if it is such a tree.
      min_head: the fewest classes in the head, at least 2; by default about
        sqrt(N), if the tails leave as many.
      cost_model: a `CostModel`; by default `CostModel()`.

    Returns:
      A list of J ints, ascending, each from 2 to N - 1.

    Raises:
      ValueError: an argument is out of range, or the counts are not sorted.
    """
    counts = _checks.check_counts(counts)
    _refuse_unsorted(counts)
    costs = ClusterCosts.of(counts, batch, width, div_value, tail, cost_model)
    least_head = 2
    if min_head is not None:
        least_head = _checks.check_int("min_head", min_head, 2)
    numbers = _numbers_of_tails(num_clusters, costs, least_head)
    best = (math.inf, [])
    # From the largest on: what is found bounds the others.
    for num_tails in sorted(set(numbers), reverse=True):
        if min_head is None:
            root = math.isqrt(counts.size - 1) + 1
            least_head = max(min(root, counts.size - num_tails), 2)
        found = _search(costs, num_tails, least_head, best[0])
        best = min(best, (costs.milliseconds(found), found), key=_milliseconds)
    return best[1]


def _search(costs, num_tails, least_head, bound):
    """Returns the best cutoffs of J tails.

    Args:
      costs: `ClusterCosts`.
      num_tails: J.
      least_head: the fewest classes in the head.
      bound: milliseconds; cutoffs that do not cost less need not be the best.
    """
    if not num_tails:
        return []
    first = least_head + np.arange(num_tails)
    last = costs.num_classes - num_tails + np.arange(num_tails)
    best = _Program(costs, _spread(first, last)).best_of_lows()
    ranges = [
        _first_ranges(costs, *ends) for ends in zip(first, last, strict=True)
    ]
    # What is fixed, however large, must not round off what sums differ by.
    bound -= costs.fixed(num_tails)
    while all(r.low.size for r in ranges):
        program = _Program(costs, ranges)
        best = min(best, program.best_of_lows(), key=_milliseconds)
        if all(np.array_equal(*r) for r in ranges):
            break
        limit = min(best[0], bound) * (1 - _ROUNDING)
        ranges = [
            _cut_up(r.low[bounds < limit], r.high[bounds < limit])
            for r, bounds in zip(ranges, program.bounds(), strict=True)
        ]
    return best[1]


def _milliseconds(found):
    return found[0]


class _Ranges(NamedTuple):
    """Ranges of values of one cutoff, ascending and apart."""

    low: np.ndarray
    high: np.ndarray  # belongs to the range, as `low` does


class _Program:
    """Bounds the milliseconds of J tails from below, but for what is fixed.

    Where each range is one value, the bounds are exact.
    """

    def __init__(self, costs, ranges):
        """Takes `ClusterCosts` and the J `_Ranges` of the cutoffs."""
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
        lows = [_Ranges(r.low, r.low) for r in self._ranges]
        program = _Program(self._costs, lows)
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
        sums = [
            self._costs.head(self._ranges[0].low, num_tails) + self._weights(0)
        ]
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


def _spread(first, last):
    """Returns one value for each cutoff, in geometric progression."""
    number = np.arange(first.size)
    values = np.geomspace(first[0], last[-1] + 1, first.size, endpoint=False)
    values = np.maximum.accumulate(values.astype(np.int64) - number) + number
    values = np.clip(values, first, last)[:, np.newaxis]
    return [_Ranges(value, value) for value in values]


def _first_ranges(costs, first, last):
    """Returns `_Ranges` in geometric progression, from `first` to `last`."""
    if not costs.is_quadrangle:
        values = np.unique(np.geomspace(first, last, _GRID_SIZE).astype(int))
        return _Ranges(values, values)
    ends = np.geomspace(first, last + 1, _FIRST_RANGES + 1).round().astype(int)
    ends = np.unique(ends)
    return _Ranges(ends[:-1], ends[1:] - 1)


def _cut_up(low, high):
    """Returns the `_Ranges`, each in up to `_PARTS` parts as even as can be."""
    sizes = high - low + 1
    parts = np.minimum(sizes, _PARTS)
    part = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    low, sizes, parts = (np.repeat(x, parts) for x in (low, sizes, parts))
    return _Ranges(
        low + sizes * part // parts, low + sizes * (part + 1) // parts - 1
    )


def _numbers_of_tails(num_clusters, costs, least_head):
    """Returns the numbers of tails to choose from."""
    most = costs.num_classes - least_head
    if isinstance(num_clusters, str):
        if num_clusters != "auto":
            raise ValueError(
                f"num_clusters is {num_clusters!r}; it must be 'auto', an "
                "integer, or several"
            )
        narrowest = max(min(_MIN_AUTO_WIDTH, costs.tail_width(1)), 1)
        numbers = range(1, min(most, _MAX_AUTO_CLUSTERS) + 1)
        return [n for n in numbers if costs.tail_width(n) >= narrowest] or [0]
    if not isinstance(num_clusters, range | list | tuple | np.ndarray):
        num_clusters = [num_clusters]
    numbers = [
        _checks.check_int("num_clusters", number, 0) for number in num_clusters
    ]
    if not numbers:
        raise ValueError("num_clusters is empty; it must name a number")
    largest = max(numbers)
    if largest > max(most, 0):
        raise ValueError(
            f"num_clusters is {largest}; of {costs.num_classes} classes at "
            f"least {least_head} are the head's, so it must be at most "
            f"{max(most, 0)}"
        )
    if not costs.tail_width(largest):
        raise ValueError(
            f"num_clusters is {largest}, but {costs.width} / "
            f"{costs.div_value:g}^{largest} leaves the last tail no width"
        )
    return numbers


def _refuse_unsorted(counts):
    """Raises a ValueError about the first class that is out of order."""
    rises = counts[1:] > counts[:-1]
    if rises.any():
        c = int(np.argmax(rises)) + 1
        raise ValueError(
            f"counts[{c}] is {counts[c]}, more than the {counts[c - 1]} before "
            "it; sort the counts, the largest first"
        )
