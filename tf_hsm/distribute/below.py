"""The subtrees below rows of a tree, and the work of a step in them.

The arrays have an entry for each group, or for each unit of a plan, and none
for each class: a hundred million classes may lie in ten thousand groups.
"""

from typing import NamedTuple

import numpy as np

from tf_hsm.tree.arrays import groups_below, groups_of, sum_groups_to_root
from tf_hsm.tree.masses import leaf_counts, passing


class SubtreeLoads(NamedTuple):
    """The subtrees below some rows, for labels drawn by counts.

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
        return SubtreeLoads(*(x if x is None else function(x) for x in self))


def below_groups(tree, counts, batch):
    """Returns the `SubtreeLoads` below the row above each group, `[G]`.

    The entry of the root's group is for the whole tree. An example that passes
    a group of k rows scores k and what it scores below its row c of the group:
    its square is k^2, twice k times the latter, and the square of that.

    Args:
      tree: the `Tree`.
      counts: `[N]` checked numbers: how often each class is the label; or
        None, all alike.
      batch: the examples in a step; or None.

    Raises:
      ValueError: all counts are zero.
    """
    levels = tree._levels
    masses = passing(tree._arrays, levels, counts)
    above = groups_of(tree.group_offsets, tree.group_parents)
    fanouts = tree._group_weight_rows
    rows = fanouts.astype(np.float64)
    work = fanouts * masses
    squares = fanouts * work
    touched = None
    if batch is not None:
        with np.errstate(divide="ignore"):  # log 0: a group that all pass
            touched = -fanouts * np.expm1(batch * np.log1p(-masses))
        sum_groups_to_root(touched, above, levels)
    sum_groups_to_root(rows, above, levels)
    own = work.copy()
    sum_groups_to_root(work, above, levels)
    squares += 2 * fanouts * (work - own)
    sum_groups_to_root(squares, above, levels)
    return SubtreeLoads(masses, rows, work, squares, touched)


def below_units(tree, below, counts, units):
    """Returns the `SubtreeLoads` below some rows, `[U]`.

    Args:
      tree: the `Tree`.
      below: the `SubtreeLoads` of `below_groups` for the same counts.
      counts: as `below_groups` takes them.
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
            (found / scaled).sum()
            for _, found in leaf_counts(tree._arrays, counts)
        )
        for rows, found in leaf_counts(tree._arrays, counts):
            at = np.minimum(np.searchsorted(leaves, rows), leaves.size - 1)
            is_leaf = leaves[at] == rows
            loads.masses[at[is_leaf]] = found[is_leaf] / scaled / total
    return loads
