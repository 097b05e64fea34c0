"""A head with another tree, which has the old classes and perhaps more."""

import numpy as np
import tensorflow as tf

from tf_hsm.layers.arguments import check_tree
from tf_hsm.runtime import kept_rows, row_parts
from tf_hsm.tree.check import check_not_pinned


def grow(layer, tree, counts=None, config=None):
    """Returns a layer with another tree; see `HierarchicalSoftmax.grow`.

    Args:
      layer: a layer with one `tree`, `kernel` and `bias`.
      tree: see `HierarchicalSoftmax.grow`.
      counts: `[N]`, or None.
      config: what changes in the layer's config; None: its tree.
    """
    _check_grows(layer, tree)
    rows = tree.map_rows(layer.tree)
    start = _StartValues(tree, rows, layer, counts)
    rows = weight_rows(layer.tree, rows)
    grown = type(layer).from_config(
        {
            **layer.get_config(),
            **_present(layer, layer.objective.for_classes(tree.num_classes)),
            **(config or {"tree": tree.get_config()}),
        }
    )
    grown.build([None, layer.kernel.shape[1]])
    kept_rows.copy(layer.kernel, grown.kernel, rows, start.kernel)
    if layer.bias is not None:
        kept_rows.copy(layer.bias, grown.bias, rows, start.bias)
    if layer.optimizer is not None and layer.optimizer.built:
        kept = kept_by(layer, rows)
        kept_rows.copy_optimizer(layer.optimizer, grown.optimizer, kept)
    return grown


def kept_by(layer, rows):
    """Returns `rows` of `weight_rows` by the ids of a layer's variables."""
    variables = (layer.kernel, layer.bias)
    return {id(v): rows for v in variables if v is not None}


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


def _present(layer, objective):
    """Returns the options of an objective that the layer's config has."""
    config = layer.get_config()
    return {k: v for k, v in objective.get_config().items() if k in config}


def _check_grows(layer, tree):
    check_tree(tree)
    check_not_pinned(tree, "a head that grows")
    layer.row_variables()  # an error if the layer is not built
    if getattr(layer, "plan", None) is not None:
        raise ValueError(
            f"{layer.name} has its rows on several devices; copy it to a "
            "layer without a plan by tf_hsm.distribute.copy_weights, grow "
            "that, and copy it to one with a plan of the new tree"
        )


class _StartValues:
    """The first values of new rows, and so of no others.

    Args:
      tree: the new tree.
      rows: `[R]`, the old row of each row, or -1.
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
        rows = weight_rows(self._head.tree, rows)
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
