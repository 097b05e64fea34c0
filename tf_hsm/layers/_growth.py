"""A head with another tree, which has the old classes and perhaps more."""

import numpy as np
import tensorflow as tf

from tf_hsm.runtime import kept_rows, row_parts
from tf_hsm.tree import Tree
from tf_hsm.tree.check import check_not_pinned


class HeadGrowth:
    """`grow` of `HierarchicalSoftmax`."""

    def grow(self, tree, counts=None):
        """Returns a layer with another tree that has learned what this one has.

        It has the name and the arguments of this one, which stays as it is; so
        does a model with it: `tf_hsm.grow` makes one with the new layer.

        A row whose old classes are those of a row of this layer keeps its
        weights, its bias and the slots of the layer's own optimizer, whose
        number of steps goes on. `tree.map_rows(layer.tree)` says which. In a
        group of the same rows as before all log-probabilities are the same, to
        the bit, and so are those of classes whose whole path is in such groups.

        The other rows begin so that they take no more than their share from
        the old rows of their group, which keep their odds against each other.
        The weights are the mean of those of the old rows, by their
        probabilities where inputs are zero; the bias gives the row its share
        there, and for other inputs it has less. Without biases a new row takes
        at most what a mean row has. A group of new rows alone begins with
        weights of zero and the shares as biases. Slots begin as those of the
        optimizer do.

        Both layers are in memory for a while.

        >>> tree = head.tree.grow(["new", "words"])
        >>> head = head.grow(tree)

        A layer with a pinned tree grows to one that is not: `head.grow(
        head.tree.expand())` has the same probabilities. The rows that had no
        weights begin with zeros, and their slots anew.

        Args:
          tree: from `Tree.grow` or `Tree.rebalance`, or any other whose first
            classes are those of the layer.
          counts: for the shares, how often each class of `tree` occurs; all
            alike when None.

        Raises:
          TypeError: `tree` is not a `tf_hsm.Tree`.
          ValueError: the layer is not built, or on several devices; the tree
            is pinned, or has not its classes; or the counts are not one for
            each class.
        """
        self._check_grows(tree)
        rows = tree.map_rows(self.tree)
        start = _StartValues(tree, rows, self, counts)
        rows = self.kept_weights(rows)
        layer = type(self).from_config(
            {
                **self.get_config(),
                "tree": tree.get_config(),
                **self.class_weights_config(tree.num_classes),
                **self.smoothing_config(tree.num_classes),
            }
        )
        layer.build([None, self.kernel.shape[1]])
        kept_rows.copy(self.kernel, layer.kernel, rows, start.kernel)
        if self.bias is not None:
            kept_rows.copy(self.bias, layer.bias, rows, start.bias)
        if self.optimizer is not None and self.optimizer.built:
            kept = self.kept_by(rows)
            kept_rows.copy_optimizer(self.optimizer, layer.optimizer, kept)
        return layer

    def kept_by(self, rows):
        """`rows`, of `tree.map_rows`, by the ids of the variables of rows."""
        variables = (self.kernel, self.bias)
        return {id(v): rows for v in variables if v is not None}

    def kept_weights(self, rows):
        """Returns the row of the weights for each row of the layer's tree.

        Args:
          rows: `[n]`, rows of the tree, or -1 for none.

        Returns:
          `[n]`, with -1 for those that a pinned tree has no weights for, too.
        """
        if not self.tree.pinned:
            return rows
        return np.where((rows >= 0) & (rows % 2 == 0), rows // 2, -1)

    def _check_grows(self, tree):
        if not isinstance(tree, Tree):
            raise TypeError(
                f"tree must be a tf_hsm.Tree, but is {type(tree).__name__}"
            )
        check_not_pinned(tree, "a head that grows")
        self.check_built()
        if self.plan is not None:
            raise ValueError(
                f"{self.name} has its rows on several devices; copy it to a "
                "layer without a plan by tf_hsm.distribute.copy_weights, grow "
                "that, and copy it to one with a plan of the new tree"
            )


class _StartValues:
    """The first values of new rows, and so of no others.

    Args:
      tree: the new tree.
      rows: `[R]`, the row that each goes on from, or -1.
      head: the old layer.
      counts: `[N]`, or None.
    """

    def __init__(self, tree, rows, head, counts):
        if counts is None:
            counts = np.ones(tree.num_classes)
        self._head = head
        self._groups = tree.row_groups
        # Of a pinned tree, rows that go on without weights.
        self._is_kept = rows >= 0
        self._shares = tree.log_prior(counts)
        has_new = np.zeros(tree.num_groups, bool)
        has_new[self._groups[rows < 0]] = True
        # The kept rows of these groups, and the first of each group.
        kept = np.flatnonzero(has_new[self._groups] & (rows >= 0))
        groups = self._groups[kept]
        firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        groups = groups[firsts]
        self._shifts = np.zeros(tree.num_groups)
        # Where to find the mean row of each group; those without have zeros.
        self._places = np.full(tree.num_groups, groups.size)
        self._means = np.zeros([groups.size + 1, head.kernel.shape[1]])
        if not groups.size:
            return
        self._places[groups] = np.arange(groups.size)
        biases = np.zeros(kept.size)
        if head.bias is not None:
            biases = self._gather(head.bias, rows[kept])
        totals = _log_sums(biases, firsts)
        self._shifts[groups] = totals - _log_sums(self._shares[kept], firsts)
        places = self._places[self._groups[kept]]
        weights = np.exp(biases - totals[places])
        for block in row_parts.blocks(kept.size, self._means.shape[1]):
            values = self._gather(head.kernel, rows[kept[block]])
            values *= weights[block, None]
            begins = np.flatnonzero(np.diff(places[block], prepend=-1))
            sums = np.add.reduceat(values, begins)
            self._means[places[block][begins]] += sums

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

    def _gather(self, variable, rows):
        rows = self._head.kept_weights(rows)
        values = tf.gather(variable.value, np.maximum(rows, 0)).numpy()
        values = values.astype(np.float64)
        values[rows < 0] = 0
        return values


def _log_sums(values, firsts):
    """The log of the sum of exp(values), for each run that begins at one."""
    highest = np.maximum.reduceat(values, firsts)
    sizes = np.diff(firsts, append=values.size)
    sums = np.add.reduceat(np.exp(values - np.repeat(highest, sizes)), firsts)
    return highest + np.log(sums)
