"""The values with which the new rows of a head that grows begin."""

import numpy as np
import tensorflow as tf

from tf_hsm.label_counts import LabelCounts
from tf_hsm.layers.layer_arguments import check_label_counts
from tf_hsm.runtime import row_parts
from tf_hsm.tree.arrays import sum_to_root

# The logit of a row that has all old labels of its parent below it: its
# probability is 0.999.
_CERTAIN_BIAS = 7.0


def weight_rows(tree, rows):
    """Returns the row of the weights for each row of a tree.

    Args:
      tree: the tree.
      rows: `[n]`, rows of the tree, or -1 for none.

    Returns:
      `[n]`, with -1 also for the rows that have no weights in a pinned tree.
    """
    if not tree.pinned:
        return rows
    return np.where((rows >= 0) & (rows % 2 == 0), rows // 2, -1)


class SoftmaxStart:
    """New rows of a hierarchical softmax: see `HierarchicalSoftmax.grow`.

    Args:
      head: the old `TreeHead`.
      tree: the new tree, which is not pinned.
      counts: `[N]`, or None.
    """

    def __init__(self, head, tree, counts=None):
        rows = head.rows_for(tree)
        if counts is None:
            counts = tree.counts
        if counts is None:
            counts = np.ones(tree.num_classes)
        self._groups = tree.row_groups
        # Where the old tree is pinned, some rows go on without weights.
        self._is_kept = rows >= 0
        self._shares = tree.log_prior(counts)
        self._shifts = np.zeros(tree.num_groups)
        kept = _KeptRows(head, tree, rows)
        biases = kept.biases()
        totals = _log_sums(biases, kept.firsts)
        self._shifts[kept.groups] = totals - _log_sums(
            self._shares[kept.rows], kept.firsts
        )
        self._means = kept.sums(np.exp(biases - totals[kept.place_of_row]))
        self._places = kept.place_of_group

    def kernel(self, rows):
        """The weights `[n, width]` of new rows of the tree `[n]`."""
        values = self._means[self._places[self._groups[rows]]]
        values[self._is_kept[rows]] = 0
        return values

    def bias(self, rows):
        """Their biases `[n]`."""
        values = self._shares[rows] + self._shifts[self._groups[rows]]
        values[self._is_kept[rows]] = 0
        return values


class LabelTreeStart:
    """New rows of a label tree: see `LabelTree.grow`.

    Args:
      head: the old `LabelTreeHead`.
      tree: the new tree.
      counts: its `LabelCounts`, or None.
    """

    def __init__(self, head, tree, counts=None):
        rows = head.rows_for(tree)
        check_label_counts(counts, tree, head.biases is not None)
        once = _labels_below(tree, tree.num_classes)
        known = counts or LabelCounts(tree, once, examples=tree.num_classes)
        self._biases = known.log_odds()
        num_old = head.num_classes
        old = _labels_below(tree, num_old)
        above = tree.group_parents[tree.row_groups]
        of_parents = np.where(above < 0, num_old, old[above])
        self._biases[(old > 0) & (old == of_parents)] = _CERTAIN_BIAS
        self._places = np.zeros(tree.num_rows, np.int64)
        self._means = np.zeros([1, head.weights.shape[1]])
        if counts is None:
            self._take_means(_KeptRows(head, tree, rows), tree, old == 0)

    def _take_means(self, kept, tree, is_new):
        """Lets rows without old labels begin as the mean of the kept rows."""
        sizes = np.diff(kept.firsts, append=kept.rows.size)
        weights = 1 / sizes[kept.place_of_row]
        self._means = kept.sums(weights)
        none = kept.groups.size
        places = np.where(is_new, kept.place_of_group[tree.row_groups], none)
        biases = np.bincount(
            kept.place_of_row, weights * kept.biases(), minlength=none
        )
        self._biases[places < none] = biases[places[places < none]]
        self._places = places

    def kernel(self, rows):
        """The weights `[n, width]` of new rows of the tree `[n]`."""
        return self._means[self._places[rows]]

    def bias(self, rows):
        """Their biases `[n]`."""
        return self._biases[rows]


class _KeptRows:
    """The rows that go on, of the groups that also have new rows.

    Attributes:
      rows: `[n]`, their numbers in the new tree.
      groups: `[g]`, the groups.
      firsts: `[g]`, the place in `rows` of the first row of each group.
      place_of_row: `[n]`, the place in `groups` of the group of each row.
      place_of_group: `[G]`, the place in `groups` of each group of the tree; g
        for the others.

    Args:
      head: the old head.
      tree: the new tree.
      rows: `[R]`, the old row that each row goes on from, or -1.
    """

    def __init__(self, head, tree, rows):
        has_new = np.zeros(tree.num_groups, bool)
        has_new[tree.row_groups[rows < 0]] = True
        self.rows = np.flatnonzero(has_new[tree.row_groups] & (rows >= 0))
        groups = tree.row_groups[self.rows]
        self.firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        self.groups = groups[self.firsts]
        self.place_of_group = np.full(tree.num_groups, self.groups.size)
        self.place_of_group[self.groups] = np.arange(self.groups.size)
        self.place_of_row = self.place_of_group[groups]
        self._head = head
        self._old_rows = weight_rows(head.tree, rows[self.rows])

    def biases(self):
        """Returns the biases `[n]`; zeros for a head without."""
        if self._head.biases is None:
            return np.zeros(self.rows.size)
        return self._gather(self._head.biases, slice(None))

    def sums(self, factors):
        """Returns sums `[g + 1, width]` of weights times factors `[n]`.

        One sum for each group; the last is zeros.
        """
        sums = np.zeros([self.groups.size + 1, self._head.weights.shape[1]])
        for block in row_parts.blocks(self.rows.size, sums.shape[1]):
            values = self._gather(self._head.weights, block)
            values *= factors[block, None]
            places = self.place_of_row[block]
            begins = np.flatnonzero(np.diff(places, prepend=-1))
            sums[places[begins]] += np.add.reduceat(values, begins)
        return sums

    def _gather(self, variable, places):
        rows = self._old_rows[places]
        with row_parts.beside(variable):
            values = tf.gather(variable.value, np.maximum(rows, 0)).numpy()
        values = values.astype(np.float64)
        values[rows < 0] = 0
        return values


def _log_sums(values, firsts):
    """The log of the sum of exp(values), for each run that begins at one."""
    if not firsts.size:
        return np.zeros(0)
    highest = np.maximum.reduceat(values, firsts)
    sizes = np.diff(firsts, append=values.size)
    sums = np.add.reduceat(np.exp(values - np.repeat(highest, sizes)), firsts)
    return highest + np.log(sums)


def _labels_below(tree, num_labels):
    """Counts the first labels at or below each row, `[R]`."""
    below = np.zeros(tree.num_rows, np.int64)
    below[tree.class_rows[:num_labels]] = 1
    sum_to_root(below, tree._arrays, tree._levels)
    return below
