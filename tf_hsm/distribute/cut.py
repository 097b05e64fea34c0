"""Where a tree is cut into a top and units, and in which order these stand.

Neither depends on the number of devices, so that a model does not.
"""

import heapq
from typing import NamedTuple

import numpy as np

from tf_hsm.tree import masses
from tf_hsm.tree.arrays import level_starts

# The most rows of a top, for each subtree that is wanted. Below it, an example
# scores as many rows as before; above, every example's are on one device.
_TOP_ROWS = 16


class Units(NamedTuple):
    """What lies directly below the top, in the order of `arrange`.

    Attributes:
      rows: `[U]` int64, rows of the tree: the leaf of a class that is in the
        top, or the root of a subtree. Leaves come first.
      work: `[U]`, the mean number of rows below it that an example scores.
    """

    rows: np.ndarray
    work: np.ndarray


def cut(arrays, counts, top):
    """Returns the `Units` of a tree.

    The top begins as the root's group. The subtree with the largest share of
    the work or of the rows is opened, its root's children being units then,
    until none has more than 1 / top of either, or cannot be opened without a
    top of more than `16 top` rows. One that has only classes below its root is
    not opened: a group is the least that can be moved.

    Args:
      arrays: the `TreeArrays`.
      counts: `[N]`, how often each class is the label; or None, all alike.
      top: about how many subtrees there shall be.
    """
    rows, work = _below(arrays, counts)
    offsets = arrays.group_offsets
    child = np.full(offsets[-1], -1, np.int64)
    child[arrays.group_parents[1:]] = np.arange(1, arrays.group_parents.size)
    total = [x[: offsets[1]].sum() for x in (rows, work)]
    shares = np.maximum(rows / max(total[0], 1), work / max(total[1], 1e-9))

    def can_open(row):
        group = child[row]
        span = slice(offsets[group], offsets[group + 1])
        return (child[span] >= 0).any()

    first = np.arange(offsets[1])
    units = set(first.tolist())
    num_rows = first.size
    open_ = [(-shares[r], int(r)) for r in first[child[first] >= 0]]
    heapq.heapify(open_)
    while open_:
        share, row = heapq.heappop(open_)
        group = child[row]
        fanout = int(offsets[group + 1] - offsets[group])
        if -share * top <= 1:
            break
        if num_rows + fanout > _TOP_ROWS * top or not can_open(row):
            continue
        num_rows += fanout
        units.remove(row)
        below = range(offsets[group], offsets[group + 1])
        units.update(below)
        for r in below:
            if child[r] >= 0:
                heapq.heappush(open_, (-shares[r], r))
    chosen = np.sort(np.fromiter(units, np.int64, len(units)))
    leaves, trees = chosen[child[chosen] < 0], chosen[child[chosen] >= 0]
    trees = trees[arrange(work[trees], rows[trees])]
    chosen = np.concatenate([leaves, trees])
    return Units(chosen, work[chosen])


def arrange(work, rows):
    """Returns an order in which every interval has fair shares of both.

    The units are dealt to two halves of like work and like rows, the heaviest
    first, and each half is arranged alike. So an interval of a given share of
    one measure has about that share of the other.

    Args:
      work: `[U]`.
      rows: `[U]`.
    """
    shares = np.stack([work, rows], 1)
    shares = shares / np.maximum(shares.sum(0), 1e-9)
    order = []
    heaviest_first = np.argsort(-shares.max(1), kind="stable")
    parts = [heaviest_first]
    while parts:
        part = parts.pop()
        if part.size <= 1:
            order.extend(part.tolist())
            continue
        halves = _halve(shares[part])
        parts += [part[halves], part[~halves]]
    return np.array(order, np.int64)


def intervals(work, rows, count):
    """Cuts the units into `count` intervals, the largest as small as can be.

    The size of a unit is the larger of its shares of the work and of the rows.
    Sizes are as like as the largest interval allows.

    Returns:
      `[count + 1]` int64, where each begins. Some are empty where there are
      fewer units.
    """
    sizes = np.zeros(work.size + 1)
    for measure in (work, rows):
        share = measure / max(measure.sum(), 1e-9)
        np.maximum(sizes[1:], share, out=sizes[1:])
    sums = np.cumsum(sizes)
    low, high = sizes.max(), sums[-1]
    for _ in range(50):
        middle = (low + high) / 2
        if _earliest_starts(sums, middle, count)[0] == 0:
            high = middle
        else:
            low = middle
    earliest = _earliest_starts(sums, high, count)
    starts = [0]
    for i in range(count):
        start = starts[-1]
        # What is left, in equal parts, to the nearest end of a unit.
        wanted = sums[start] + (sums[-1] - sums[start]) / (count - i)
        end = int(np.searchsorted(sums, wanted))
        if end > start + 1 and wanted - sums[end - 1] < sums[end] - wanted:
            end -= 1
        last = (
            int(
                np.searchsorted(sums, sums[start] + high * (1 + 1e-12), "right")
            )
            - 1
        )
        starts.append(max(min(end, last), earliest[i + 1]))
    return np.array(starts, np.int64)


def _earliest_starts(sums, size, count):
    """Where the last intervals can begin at the earliest, `[count + 1]`.

    Entry i is the first unit from which count - i intervals of at most the
    given size reach the end.
    """
    starts = [sums.size - 1]
    # Rounding must not part what fits.
    size = size * (1 + 1e-12)
    for _ in range(count):
        starts.append(int(np.searchsorted(sums, sums[starts[-1]] - size)))
    return starts[::-1]


def _halve(shares):
    """Deals units `[U, 2]`, heaviest first, to two halves: `[U]` bool."""
    totals = [[0.0, 0.0], [0.0, 0.0]]
    first = np.zeros(len(shares), bool)
    for i, (work, rows) in enumerate(shares.tolist()):
        a, b = totals
        half = int(
            max(b[0] + work, b[1] + rows) < max(a[0] + work, a[1] + rows)
        )
        totals[half][0] += work
        totals[half][1] += rows
        first[i] = half == 0
    return first


def _below(arrays, counts):
    """The rows below each row, and how many of them an example scores."""
    levels = level_starts(arrays)
    offsets, parents, _ = arrays
    fanouts = np.diff(offsets)
    passing = masses.group_masses(
        arrays, masses.row_masses(arrays, levels, counts)
    )
    rows, work = np.zeros(offsets[-1]), np.zeros(offsets[-1])
    for begin, end in zip(levels[-2:0:-1], levels[:1:-1], strict=True):
        first = offsets[begin]
        span, starts = slice(first, offsets[end]), offsets[begin:end] - first
        above = parents[begin:end]
        groups = slice(begin, end)
        rows[above] = fanouts[groups] + np.add.reduceat(rows[span], starts)
        work[above] = fanouts[groups] * passing[groups] + np.add.reduceat(
            work[span], starts
        )
    return rows, work
