"""Frequency clusters of an adaptive softmax, by dynamic programming.

The n most frequent classes are the shortlist, whose group also holds one row
for each of J tails. The others, in the order of their frequency, are cut into
the tails (Grave et al., 2016). With P(m) the probability of the m most frequent
classes and g the cost of a group (`CostModel`), a step of B examples costs

    g(n + J, B, D) + sum over the tails [m, m') of g(m' - m, B_t, d_t)
    B_t = B (P(m') - P(m))

A tail narrower than the inputs, d_t < D, also costs the projection of its
examples, g(d_t, B_t, D).

`_search` finds the least sum among all cutoffs, whatever the constants of the
model: `TailProgram` bounds it from below over ranges of cutoffs, and those that
may hold it are cut up until each is one cutoff. Tails that are trees of their
own would take too long: theirs is the least sum among `_GRID_SIZE` values of
each cutoff, in geometric progression.
"""

import math

import numpy as np

from tf_hsm import _checks
from tf_hsm.cost.cluster_costs import ClusterCosts
from tf_hsm.cost.tail_program import Ranges, TailProgram

_MAX_AUTO_CLUSTERS = 8  # tails that "auto" tries
_MIN_AUTO_WIDTH = 8  # of the last tail of those
_FIRST_RANGES = 256  # of a cutoff, before any is cut up
_PARTS = 8  # of a range that is cut up
_GRID_SIZE = 256  # values of a cutoff, where tails are trees
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

    The shortlist holds the classes below the first cutoff; tail j holds those
    from cutoff j on, `width // div_value**j` wide, as in PyTorch's adaptive
    softmax. Tails as wide as the inputs are groups of one tree, in one call;
    narrower ones take a call each, and one for their projection.

    Args:
      counts: `[N]`, how often each class occurs, the most frequent first; when
        all are zero, all are alike.
      num_clusters: J, the number of tails; or several to choose from, such as
        `range(5)`; or "auto" for 1 to 8, but for more than 1 only if the last
        tail is at least 8 wide, or as wide as the first. Where not even 1 is
        possible, "auto" is 0: a flat softmax.
      batch: B, the examples in a step.
      width: D, of the inputs.
      div_value: how much narrower each tail is than the one before; at least 1.
      tail: "flat" if each tail is one group; "two_level", or the branching of
        a balanced tree, at least 2, if it is such a tree.
      min_head: the fewest classes in the shortlist, at least 2; by default
        about sqrt(N), if the tails leave as many.
      cost_model: a `CostModel`; by default `CostModel()`.

    Returns:
      A list of J ints, ascending, each from 2 to N - 1.

    Raises:
      ValueError: an argument is out of range, or the counts are not sorted.
    """
    counts = _checks.check_counts(counts)
    _refuse_unsorted(counts)
    costs = ClusterCosts.of(counts, batch, width, div_value, tail, cost_model)
    least_shortlist = 2
    if min_head is not None:
        least_shortlist = _checks.check_int("min_head", min_head, 2)
    numbers = _numbers_of_tails(num_clusters, costs, least_shortlist)
    best = (math.inf, [])
    # From the largest on: what is found bounds the others.
    for num_tails in sorted(set(numbers), reverse=True):
        if min_head is None:
            root = math.isqrt(counts.size - 1) + 1
            least_shortlist = max(min(root, counts.size - num_tails), 2)
        found = _search(costs, num_tails, least_shortlist, best[0])
        best = min(best, (costs.milliseconds(found), found), key=_milliseconds)
    return best[1]


def _search(costs, num_tails, least_shortlist, bound):
    """Returns the best cutoffs of J tails; any if none cost below `bound`."""
    if not num_tails:
        return []
    first = least_shortlist + np.arange(num_tails)
    last = costs.num_classes - num_tails + np.arange(num_tails)
    best = TailProgram(costs, _spread(first, last)).best_of_lows()
    ranges = [
        _first_ranges(costs, *ends) for ends in zip(first, last, strict=True)
    ]
    # Without the fixed costs, which could be so large that the differences
    # between sums would be rounded away.
    bound -= costs.fixed(num_tails)
    while all(r.low.size for r in ranges):
        program = TailProgram(costs, ranges)
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


def _spread(first, last):
    """Returns one value for each cutoff, in geometric progression."""
    number = np.arange(first.size)
    values = np.geomspace(first[0], last[-1] + 1, first.size, endpoint=False)
    values = np.maximum.accumulate(values.astype(np.int64) - number) + number
    values = np.clip(values, first, last)[:, np.newaxis]
    return [Ranges(value, value) for value in values]


def _first_ranges(costs, first, last):
    """Returns `Ranges` in geometric progression, from `first` to `last`."""
    if not costs.is_quadrangle:
        values = np.unique(np.geomspace(first, last, _GRID_SIZE).astype(int))
        return Ranges(values, values)
    ends = np.geomspace(first, last + 1, _FIRST_RANGES + 1).round().astype(int)
    ends = np.unique(ends)
    return Ranges(ends[:-1], ends[1:] - 1)


def _cut_up(low, high):
    """Returns the `Ranges`, each in up to `_PARTS` parts as even as can be."""
    sizes = high - low + 1
    parts = np.minimum(sizes, _PARTS)
    part = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    low, sizes, parts = (np.repeat(x, parts) for x in (low, sizes, parts))
    return Ranges(
        low + sizes * part // parts, low + sizes * (part + 1) // parts - 1
    )


def _numbers_of_tails(num_clusters, costs, least_shortlist):
    """Returns the numbers of tails to choose from."""
    most = costs.num_classes - least_shortlist
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
            f"least {least_shortlist} are the head's, so it must be at most "
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
