"""Where a tree is cut into a top and units, and in which order these stand.

Neither depends on the number of devices, so that a model does not.
"""

import heapq

import numpy as np

from tf_hsm.tree.arrays import groups_below, groups_of, ranges

# The most rows of a top, for each subtree that is wanted. Below it, an example
# scores as many rows as before; above, every example's are on one device.
_TOP_ROWS = 16
# The most units that are dealt one by one, in Python.
_DEALT = 4096


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
      rows: `[G]`, the rows of each group and below.
      work: `[G]`, the mean number of these that an example scores.
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
    one measure has about that share of the other. If there are very many, the
    light ones are dealt in bundles.

    Args:
      work: `[U]`.
      rows: `[U]`.
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
