"""A head for fewer classes, which continues the rows of an earlier one."""

from typing import Any, NamedTuple

import numpy as np

from tf_hsm.layers import continued
from tf_hsm.tree import kept_classes, pruned_tree


class PrunedHead(NamedTuple):
    """The result of `prune` of a layer.

    Attributes:
      head: the pruned layer.
      classes: `[N]` int64, the new class of each old class; -1 for a class
        that was dropped.
      rows: `[R]` int64, the row of the old tree that each row of the new tree
        continues.
    """

    head: Any
    classes: np.ndarray
    rows: np.ndarray


def prune(layer, keep, merge, counts, config=None, drop="collapse"):
    """Returns a `PrunedHead`; see `HierarchicalSoftmax.prune`.

    Args:
      layer: a layer with one tree.
      keep: see `HierarchicalSoftmax.prune`.
      merge: whether removed classes fall to their parents.
      counts: `[N]`, or None.
      config: a function from the `PrunedTree` to what changes in the layer's
        config; None: the tree.
      drop: what `pruned_tree.prune` does without `merge`.
    """
    tree = continued.only_head(layer, "prune").tree
    counts = tree.counts if counts is None else tree._by_class(counts)
    keep, counts = kept_classes.read(keep, tree.num_classes, counts)
    pruned = pruned_tree.prune(tree, keep, "merge" if merge else drop)
    config = config or (lambda found: {"tree": found.tree.get_config()})
    made = continued.make(
        layer,
        layer.objective.for_pruned(pruned, counts),
        config(pruned),
        lambda made: kept(layer, pruned.rows),
    )
    return PrunedHead(made, pruned.classes, pruned.rows)


def kept(layer, rows):
    """Returns which rows of a layer's variables go on in a pruned layer.

    Args:
      layer: the old layer.
      rows: `PrunedHead.rows`.

    Returns:
      By the ids of the layer's variables, the row that each row of the pruned
      layer's variable continues; see `continued.make`.
    """
    (head,) = layer._tree_heads()
    if head.tree.pinned:
        # Both rows of a group continue the rows of one group.
        rows = rows[::2] // 2
    return {id(variable): rows for variable in head.variables()}
