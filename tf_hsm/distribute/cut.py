"""Where a tree is cut into a top and units, and in which order these stand.

Neither depends on the number of devices, so that a model does not.
"""

import heapq

import numpy as np

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
      rows: `[R]`, the rows below each row.
      work: `[R]`, the mean number of these that an example scores.
      top: about how many subtrees there shall be.
    """
    offsets, child = tree.group_offsets, tree.row_children
    end = int(offsets[1])
    shares = np.maximum(_shares(rows, end), _shares(work, end))
    # No more than 2 top subtrees have so much.
    large = np.flatnonzero(shares * top > 1)
    opened = np.zeros(tree.num_groups, bool)
    opened[0] = True
    num_rows = end
    waiting = [(-shares[row], int(row)) for row in large[large < end]]
    heapq.heapify(waiting)
    while waiting:
        share, row = heapq.heappop(waiting)
        group = child[row]
        fanout = int(offsets[group + 1] - offsets[group])
        if num_rows + fanout > _TOP_ROWS * top:
            continue
        below = np.arange(offsets[group], offsets[group + 1])
        below = below[child[below] >= 0]
        moves_most = 2 * shares[below].sum() < -share
        if not below.size or (fanout > top and moves_most):
            continue
        opened[group] = True
        num_rows += fanout
        for row in below[shares[below] * top > 1]:
            heapq.heappush(waiting, (-shares[row], int(row)))
    _close_chains(tree, opened)
    is_unit = opened[tree.row_groups]
    is_unit[tree.group_parents[np.flatnonzero(opened)[1:]]] = False
    units = np.flatnonzero(is_unit)
    leaves, trees = units[child[units] < 0], units[child[units] >= 0]
    trees = trees[arrange(work[trees], rows[trees])]
    return np.concatenate([leaves, trees])


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


def _close_chains(tree, opened):
    """Closes groups with fewer than two subtrees below them, in place."""
    groups = np.flatnonzero(opened)
    inner = np.bincount(
        tree.row_groups[tree.group_parents[1:]], minlength=tree.num_groups
    )[groups]
    subtrees = dict(zip(groups.tolist(), inner.tolist(), strict=True))
    for group in groups[:0:-1].tolist():
        above = int(tree.row_groups[tree.group_parents[group]])
        if subtrees[group] < 2:
            opened[group] = False
        else:
            subtrees[above] += subtrees[group] - 1


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


def _shares(values, end=None):
    """Divides by the sum of the first `end`; zeros stay zeros."""
    total = values[:end].sum()
    return values / total if total > 0 else np.zeros(values.size)
