"""Intervals of units, of like work and like rows."""

import numpy as np

# Rounding must not part what fits.
_ROUNDING = 1e-12


def intervals(work, rows, count):
    """Cuts the units into `count` intervals, the largest as small as can be.

    The size of an interval is the larger of its shares of the work and of the
    rows. Sizes are as like as the largest interval allows.

    Args:
      work: `[U]`.
      rows: `[U]`.
      count: how many intervals.

    Returns:
      `[count + 1]` int64, where each begins. Some are empty where there are
      fewer units.
    """
    sums = np.zeros([2, work.size + 1])
    for measure, total in zip((work, rows), sums, strict=True):
        np.cumsum(measure, out=total[1:])
        if total[-1] > 0:
            total /= total[-1]
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if _earliest_starts(sums, middle, count)[0] == 0:
            high = middle
        else:
            low = middle
    earliest = _earliest_starts(sums, high, count)
    both = np.append(0.0, np.cumsum(_capped(np.diff(sums.sum(0)), count)))
    starts = [0]
    for i in range(count):
        start = starts[-1]
        # What is left, in equal parts, to the nearest end of a unit.
        wanted = both[start] + (both[-1] - both[start]) / (count - i)
        end = int(np.searchsorted(both, wanted))
        if end > start + 1 and wanted - both[end - 1] < both[end] - wanted:
            end -= 1
        last = min(
            int(np.searchsorted(total, total[start] + _most(high), "right")) - 1
            for total in sums
        )
        starts.append(max(min(end, last), earliest[i + 1]))
    return np.array(starts, np.int64)


def _capped(sizes, count):
    """Caps sizes at the mean of an interval, so that none counts for two."""
    ascending = np.sort(sizes)
    # The mean of the others, where the k largest have an interval each.
    k = np.arange(min(count, sizes.size))
    means = (ascending.sum() - np.append(0.0, np.cumsum(ascending[::-1])))[
        : k.size
    ] / (count - k)
    is_cap = ascending[::-1][: k.size] <= means * (1 + _ROUNDING)
    return (
        np.minimum(sizes, means[np.argmax(is_cap)]) if is_cap.any() else sizes
    )


def _earliest_starts(sums, size, count):
    """Where the last intervals can begin at the earliest, `[count + 1]`.

    Entry i is the first unit from which count - i intervals of at most the
    given size reach the end.

    Args:
      sums: `[2, U + 1]`, what is before each unit, of each measure.
      size: a share of either measure.
      count: how many intervals.
    """
    starts = [sums.shape[1] - 1]
    for _ in range(count):
        starts.append(
            max(
                int(np.searchsorted(total, total[starts[-1]] - _most(size)))
                for total in sums
            )
        )
    return starts[::-1]


def _most(size):
    return size * (1 + _ROUNDING) + _ROUNDING
