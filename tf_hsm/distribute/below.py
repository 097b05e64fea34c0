"""What lies below each row of a tree, and what a step has to do there."""

from typing import NamedTuple

import numpy as np

from tf_hsm.tree import masses


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


def below_rows(tree, counts, batch):
    """Returns what is `Below` each row of a tree.

    An example whose path has row c of a group of k rows scores k and what it
    scores below c: its square is k^2, twice k times the latter, and the square
    of that.

    Args:
      tree: the `Tree`.
      counts: `[N]`, how often each class is the label; or None, all alike.
      batch: the examples in a step; or None.
    """
    arrays, levels = tree._arrays, tree._levels
    offsets, parents, _ = arrays
    fanouts = tree._group_weight_rows
    passing = masses.row_masses(arrays, levels, counts)
    touched_groups = None
    if batch is not None:
        with np.errstate(divide="ignore"):  # log 0: a group that all pass
            touched_groups = -fanouts * np.expm1(
                batch * np.log1p(-masses.group_masses(arrays, passing))
            )
    rows, work, squares = (np.zeros(tree.num_rows) for _ in range(3))
    touched = None if batch is None else np.zeros(tree.num_rows)
    for begin, end in zip(levels[-2:0:-1], levels[:1:-1], strict=True):
        first = offsets[begin]
        span, starts = slice(first, offsets[end]), offsets[begin:end] - first
        above, groups = parents[begin:end], slice(begin, end)
        size = fanouts[groups]

        def total(values, span=span, starts=starts):
            return np.add.reduceat(values[span], starts)

        rows[above] = size + total(rows)
        scored = total(work)
        work[above] = size * passing[above] + scored
        squares[above] = size * (size * passing[above] + 2 * scored) + total(
            squares
        )
        if touched is not None:
            touched[above] = touched_groups[groups] + total(touched)
    return Below(passing, rows, work, squares, touched)
