"""A head that moves to another tree of the same shape, in place."""

import numpy as np
import tensorflow as tf

from tf_hsm.heads.sharded import ShardedHead
from tf_hsm.heads.tree_head import TiedHead, TreeHead
from tf_hsm.layers import quantized, regrouped_rows
from tf_hsm.runtime import kept_rows, private_keras, row_parts
from tf_hsm.tree.tree import check_one_tree


def regroup(layer, tree, inputs=None, model=None, optimizer=None):
    """See `HeadLayer.regroup`."""
    check_possible(layer)
    if inputs is not None:
        width = width_of(layer)
        inputs = np.asarray(layer._hidden(inputs)).reshape(-1, width)
    if optimizer is None and model is not None:
        optimizer = getattr(model, "optimizer", None)
    move(layer, tree, inputs, optimizer)
    if model is not None:
        private_keras.forget_traces(model)


def move(layer, tree, hidden, optimizer):
    """Moves a layer and the slots of its optimizers to another tree.

    Args:
      layer: the layer.
      tree: the new tree.
      hidden: `[n, width]` inputs of the rows, an array; or None.
      optimizer: another optimizer that has slots of the rows, or None.
    """
    check_one_tree(tree)
    head = check_possible(layer)
    if not _same_shape(layer.tree, tree):
        raise ValueError(
            f"{layer.name} has the {layer.tree}, and can move to a tree of the "
            f"same shape only, but was given the {tree}; take "
            "head.tree.regroup(vectors), or head.grow(tree) for a new layer "
            "with another tree"
        )
    if hidden is not None:
        hidden = hidden.astype(np.float64)
        if not len(hidden) or not np.isfinite(hidden).all():
            raise ValueError(
                f"the fit of {layer.name} takes finite inputs [n, width], at "
                f"least one; their shape is {list(hidden.shape)}"
            )
    moves = Moves(layer.tree, tree)
    matrices = row_parts.wholes(head.variables())
    # Refuses an optimizer before anything has moved.
    slots = [
        (of_matrix, matrix)
        for one in (layer.optimizer, optimizer)
        if one is not None
        for matrix in matrices
        for of_matrix in kept_rows.slots_of(one, matrix)
    ]
    weights = biases = None
    if moves.moved.size:
        weights, biases = regrouped_rows.fit(
            head.on_one_device(), tree, moves.moved, hidden
        )
        if tree.pinned:
            weights = weights[0::2] - weights[1::2]
            biases = None if biases is None else biases[0::2] - biases[1::2]
    for of_matrix, matrix in slots:
        kept_rows.permute(of_matrix, moves.slot_sources, like=matrix)
    for matrix, values in zip(matrices, (weights, biases), strict=False):
        kept_rows.permute(matrix, moves.sources, values)
    layer._set_tree(tree)


def width_of(layer):
    """Returns the width of the rows of a built layer."""
    return layer.kernel.shape[1]


def check_possible(layer):
    """Returns the head of a layer that can move to another tree.

    Returns:
      A `TreeHead` or a `ShardedHead`, which takes hidden vectors.

    Raises:
      ValueError: the layer is not built, or cannot move.
    """
    layer._check_built()
    quantized.check_floats(layer, "regroup")
    head = layer._head
    if isinstance(head, TiedHead):
        raise ValueError(
            f"{layer.name}: regroup is not possible with tied_to: a flat tree "
            "has no groups to change"
        )
    if type(head) not in (TreeHead, ShardedHead):
        raise ValueError(
            f"{layer.name}: regroup is not possible for "
            f"{type(layer).__name__}; it takes a HierarchicalSoftmax or an "
            "EmbeddingSoftmax"
        )
    if isinstance(layer.kernel.value, tf.distribute.DistributedValues):
        raise ValueError(
            f"{layer.name} has copies of its rows on several replicas; save "
            "the model, load and regroup it without a strategy, save it, and "
            "load it under the strategy"
        )
    return head


class Moves:
    """The moves of rows when a head gets another tree of the same shape.

    Attributes:
      moved: the rows of all groups that stand for other sets of classes than
        every old group, ascending.
      sources: for each row of the weights, the old row whose values it keeps;
        -1 for rows of `moved`.
      slot_sources: for each row of the weights, the old row whose slots it
        keeps: as `sources`, and for rows of `moved` the old leaf of the class,
        or the same row where it is an inner row.
    """

    def __init__(self, old, new):
        """Finds the rows of two trees of the same shape."""
        sources = new.map_rows(old)
        firsts = new.group_offsets[:-1]
        groups = np.where(sources < 0, -1, old.row_groups[sources])
        sizes = np.diff(new.group_offsets)
        is_kept = (
            (np.minimum.reduceat(groups, firsts) >= 0)
            & (
                np.minimum.reduceat(groups, firsts)
                == np.maximum.reduceat(groups, firsts)
            )
            & (sizes[groups[firsts]] == sizes)
        )
        if new.pinned:  # A row of weights is the first row less the second.
            is_kept &= sources[firsts] % 2 == 0
        is_kept = is_kept[new.row_groups]
        self.moved = np.flatnonzero(~is_kept)
        slots = np.arange(new.num_rows)
        slots[new.class_rows] = old.class_rows
        if new.pinned:
            slots = 2 * new.row_groups
        slots = np.where(is_kept, sources, slots)
        sources = np.where(is_kept, sources, -1)
        if new.pinned:
            sources = np.where(sources[0::2] < 0, -1, sources[0::2] // 2)
            slots = slots[0::2] // 2
        self.sources, self.slot_sources = sources, slots


def _same_shape(old, new):
    return (
        old.pinned == new.pinned
        and np.array_equal(old.group_offsets, new.group_offsets)
        and np.array_equal(old.group_parents, new.group_parents)
    )
