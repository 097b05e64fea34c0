"""Where a tree is cut into a top and units, their order, and their intervals.

The cut and the order do not depend on the number of devices, so that a model
does not. Each device has an interval of the units.
"""

import heapq

import numpy as np

from tf_hsm.tree.arrays import groups_below, groups_of, ranges

# The most rows of a top, for each subtree that is wanted. Below it, an example
# scores as many rows as before; above, every example's are on one device.
_TOP_ROWS = 16
# The most units that are dealt one by one, in Python.
_DEALT = 4096
# Rounding must not part what fits.
_ROUNDING = 1e-12


def cut(tree, rows, work, top):
    """Returns the row of each unit, `[U]` int64; leaves first, ascending.

    The top begins as the root's group. The subtree with the largest share of
    the work or of the rows is opened, its root's children being units then,
    until none has more than 1 / top of either, or cannot be opened without a
    top of more than `16 top` rows. One that has only classes below its root is
    not opened: a group is the least that can be moved. Nor is one of which the
    opening would move most into the top, but for groups of up to `top` rows;
    nor one that opening does not part into two subtrees at least.

    Args:
      tree: the `Tree`.
      rows: `[G]`, of the `SubtreeLoads` of groups, as `work`.
      work: `[G]`.
      top: about how many subtrees there shall be.
    """
    offsets, parents, _ = tree._arrays
    fanouts = np.diff(offsets)

    def children(group):
        return np.arange(*np.searchsorted(parents, offsets[group : group + 2]))

    first = slice(1, 1 + children(0).size)
    shares = np.maximum(_shares(rows, first), _shares(work, first))
    # No more than 2 top subtrees have so much.
    is_large = shares * top > 1
    opened = np.zeros(tree.num_groups, bool)
    opened[0] = True
    num_rows = int(fanouts[0])
    waiting = [(-shares[g], g) for g in _at(is_large, children(0))]
    heapq.heapify(waiting)
    while waiting:
        share, group = heapq.heappop(waiting)
        if num_rows + fanouts[group] > _TOP_ROWS * top:
            continue
        below = children(group)
        moves_most = 2 * shares[below].sum() < -share
        if not below.size or (fanouts[group] > top and moves_most):
            continue
        opened[group] = True
        num_rows += int(fanouts[group])
        for inner in _at(is_large, below):
            heapq.heappush(waiting, (-shares[inner], inner))
    groups = _without_chains(tree, np.flatnonzero(opened))
    units = np.setdiff1d(
        ranges(offsets[groups], fanouts[groups]),
        parents[groups],
        assume_unique=True,
    )
    below = groups_below(parents, units)
    trees = below[below >= 0]
    trees = trees[arrange(work[trees], rows[trees])]
    return np.concatenate([units[below < 0], parents[trees]])


def arrange(work, rows):
    """Returns an order in which every interval has fair shares of both.

    The units are dealt to two halves of like work and like rows, the heaviest
    first, and each half is arranged alike. So an interval of a given share of
    one measure, `work [U]` or `rows [U]`, has about that share of the other. If
    there are very many, the light ones are dealt in bundles.
    """
    shares = np.stack([_shares(work), _shares(rows)], 1)
    order = np.argsort(-shares.max(1), kind="stable")
    bundles = np.arange(work.size)
    bundles[_DEALT:] = _DEALT + bundles[_DEALT:] % _DEALT
    members = [
        order[i : i + 1] if i < _DEALT else order[i::_DEALT]
        for i in range(min(work.size, 2 * _DEALT))
    ]
    sums = np.stack(
        [np.bincount(bundles, measure) for measure in shares[order].T], 1
    )
    parts = [np.arange(len(members))]
    arranged = [np.empty(0, np.int64)]
    while parts:
        part = parts.pop()
        if part.size <= 1:
            arranged += [members[i] for i in part]
            continue
        halves = _halve(sums[part])
        parts += [part[halves], part[~halves]]
    return np.concatenate(arranged)


def _without_chains(tree, opened):
    """Leaves out the opened groups with fewer than two subtrees below them."""
    offsets, parents, _ = tree._arrays
    subtrees = np.searchsorted(parents, offsets[opened + 1])
    subtrees -= np.searchsorted(parents, offsets[opened])
    subtrees = dict(zip(opened.tolist(), subtrees.tolist(), strict=True))
    above = groups_of(offsets, parents[opened]).tolist()
    kept = np.ones(opened.size, bool)
    for i in range(opened.size - 1, 0, -1):
        count = subtrees[int(opened[i])]
        if count < 2:
            kept[i] = False
        else:
            subtrees[above[i]] += count - 1
    return opened[kept]


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
    if first.all():  # nothing has any size
        first[1::2] = False
    return first


def _shares(values, parts=slice(None)):
    """Divides by the sum of some values; zeros stay zeros."""
    total = values[parts].sum()
    return values / total if total > 0 else np.zeros(values.size)


def _at(is_chosen, groups):
    return groups[is_chosen[groups]].tolist()


def intervals(work, rows, count):
    """Cuts the units into `count` intervals, the largest as small as can be.

    The size of an interval is the larger of its shares of the work `[U]` and of
    the rows `[U]`. Sizes are as like as the largest interval allows.

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

    Entry i is the first unit from which count - i intervals of at most `size`,
    a share of either measure, reach the end. `sums [2, U + 1]` has the shares
    before each unit.
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
