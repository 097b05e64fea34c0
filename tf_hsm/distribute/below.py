"""What lies below the rows of a tree, and what a step has to do there.

The arrays have an entry for each group, or for each unit of a plan, and none
for each class: a hundred million classes may lie in ten thousand groups.
"""

from typing import NamedTuple

import numpy as np

from tf_hsm.tree.arrays import groups_below, groups_of

_CHUNK = 1 << 22  # classes whose groups are looked up at a time


class Below(NamedTuple):
    """What lies below some rows, where labels are drawn by counts.

    Rows below are those that have weights: of a pinned tree one of each group.

    Attributes:
      masses: `[...]`, the probability that a label's path has the row.
      rows: `[...]`, how many there are below it.
      work: `[...]`, the mean number of these that an example scores.
      squares: `[...]`, the mean square of that number.
      touched: `[...]`, the mean number of these that a batch touches; or None.
    """

    masses: np.ndarray
    rows: np.ndarray
    work: np.ndarray
    squares: np.ndarray
    touched: np.ndarray | None

    def map(self, function):
        """Applies a function to each array that is there."""
        return Below(*(x if x is None else function(x) for x in self))


def below_groups(tree, counts, batch):
    """Returns what is `Below` the row above each group, `[G]`.

    The entry of the root's group is for the whole tree. An example that passes
    a group of k rows scores k and what it scores below its row c of the group:
    its square is k^2, twice k times the latter, and the square of that.

    Args:
      tree: the `Tree`.
      counts: `[N]`, how often each class is the label, which are checked; or
        None, all alike.
      batch: the examples in a step; or None.

    Raises:
      ValueError: all counts are zero.
    """
    offsets, parents, _ = tree._arrays
    above = groups_of(offsets, parents)
    masses = _leaf_masses(tree, above, counts)
    _sum_to_root(masses, above, tree._levels)
    np.minimum(masses, 1, out=masses)  # sums are rounded
    fanouts = tree._group_weight_rows
    rows = fanouts.astype(np.float64)
    work = fanouts * masses
    squares = fanouts * work
    touched = None
    if batch is not None:
        with np.errstate(divide="ignore"):  # log 0: a group that all pass
            touched = -fanouts * np.expm1(batch * np.log1p(-masses))
        _sum_to_root(touched, above, tree._levels)
    _sum_to_root(rows, above, tree._levels)
    own = work.copy()
    _sum_to_root(work, above, tree._levels)
    squares += 2 * fanouts * (work - own)
    _sum_to_root(squares, above, tree._levels)
    return Below(masses, rows, work, squares, touched)


def below_units(tree, below, counts, units):
    """Returns what is `Below` some rows, `[U]`.

    Args:
      tree: the `Tree`.
      below: what `below_groups` returned.
      counts: its argument.
      units: `[U]`, rows of the tree; leaves come first, ascending.
    """
    groups = groups_below(tree.group_parents, units)
    leaves = units[groups < 0]
    loads = below.map(
        lambda values: np.append(
            np.zeros(leaves.size), values[groups[groups >= 0]]
        )
    )
    if counts is None:
        loads.masses[: leaves.size] = 1 / tree.num_classes
    elif leaves.size:
        scaled = counts.max()
        total = sum(
            (found / scaled).sum() for _, found in _chunks(tree, counts)
        )
        for rows, found in _chunks(tree, counts):
            at = np.minimum(np.searchsorted(leaves, rows), leaves.size - 1)
            is_leaf = leaves[at] == rows
            loads.masses[at[is_leaf]] = found[is_leaf] / scaled / total
    return loads


def _leaf_masses(tree, above, counts):
    """Returns the probability of a label among the leaves of each group."""
    if counts is None:
        inner = np.bincount(above[1:], minlength=tree.num_groups)
        return (np.diff(tree.group_offsets) - inner) / tree.num_classes
    if not counts.any():
        raise ValueError("all counts are zero; no class ever occurs")
    masses = np.zeros(tree.num_groups)
    largest = counts.max()
    for rows, found in _chunks(tree, counts):
        groups = groups_of(tree.group_offsets, rows)
        np.add.at(masses, groups, found / largest)
    return masses / masses.sum()


def _chunks(tree, counts):
    """Yields the leaf rows of some classes, and their counts."""
    for first in range(0, tree.num_classes, _CHUNK):
        classes = slice(first, first + _CHUNK)
        yield tree.class_rows[classes], counts[classes]


def _sum_to_root(values, above, levels):
    """Adds to the value of each group the sums of the groups below it."""
    for first, begin, end in zip(
        levels[-3::-1], levels[-2:0:-1], levels[:1:-1], strict=True
    ):
        values[first:begin] += np.bincount(
            above[begin:end] - first, values[begin:end], begin - first
        )
