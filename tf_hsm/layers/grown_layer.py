"""A head for more classes, which goes on from the rows of an earlier one."""

import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.layers import continued, quantized
from tf_hsm.layers.replicated import is_over_replicas
from tf_hsm.layers.start_values import SoftmaxStart, weight_rows
from tf_hsm.runtime import row_parts
from tf_hsm.tree.check import check_not_pinned
from tf_hsm.tree.new_classes import check_old_classes
from tf_hsm.tree.tree import check_one_tree


def grow(layer, tree, counts=None, config=None, start=SoftmaxStart, like=None):
    """Returns a layer with another tree; see `HierarchicalSoftmax.grow`.

    Args:
      layer: a layer with one tree.
      tree: see `HierarchicalSoftmax.grow`.
      counts: of the new tree, or None.
      config: what changes in the layer's config; None: its tree.
      start: makes the start values of new rows from the old head, the new tree
        and the counts.
      like: see `HierarchicalSoftmax.grow`.
    """
    check_one_tree(tree)
    check_not_pinned(tree, "a head that grows")
    head = continued.only_head(layer, "grow")
    starts = [start(head, tree, counts)]
    if like is not None:
        like = _checked_like(like, tree, head)
    config = config or {"tree": tree.get_config()}
    grown = _continued(layer, tree.num_classes, config, starts)
    if like is not None:
        _copy_rows(grown, like)
    return grown


def _checked_like(like, tree, head):
    """Returns the old classes `[M]` that new ones begin like."""
    num_old, num_new = head.num_classes, tree.num_classes - head.num_classes
    like = check_old_classes("like", like, num_old, num_new)
    groups = tree.row_groups[tree.class_rows]
    _checks.refuse_first(
        groups[num_old:] != groups[like],
        lambda i: (
            f"class {num_old + i} cannot begin like class {like[i]}, "
            "which is in another group: make the tree by grow(..., near=like)"
        ),
    )
    if head.biases is None:
        raise ValueError(
            "like shares the probability of a class by its bias, but the head "
            "has no biases"
        )
    return like


def _copy_rows(layer, like):
    """Gives the last classes of a layer the rows of the classes `like`."""
    (head,) = layer._tree_heads()
    rows = head.tree.class_rows
    new, old = rows[rows.size - like.size :], rows[like]
    times = np.bincount(old, minlength=head.tree.num_rows)
    with row_parts.beside(head.weights):
        weights = head.weights.value
        weights.scatter_update(tf.IndexedSlices(tf.gather(weights, old), new))
        biases = head.biases.value
        values = tf.gather(biases, old).numpy().astype(np.float64)
        values -= np.log1p(times[old])
        values = tf.cast(np.tile(values, 2), biases.dtype)
        places = np.concatenate([new, old])
        biases.scatter_update(tf.IndexedSlices(values, places))


def grow_clusters(layer, num_classes, counts=None):
    """Returns an `AdaptiveSoftmax` for more classes; see `grow` there."""
    quantized.check_floats(layer, "grow")
    if is_over_replicas(layer):
        raise ValueError(
            f'{layer.name}: grow is not possible with devices="replicas"; '
            "save the weights, load them into a layer without devices, grow "
            "that layer, and load its weights into a layer over replicas"
        )
    heads = layer._tree_heads()
    spec = layer.spec.grown(num_classes)
    if counts is None:
        counts = np.ones(spec.num_classes)
    counts = spec.clusters.split_classes(counts)
    trees = [spec.clusters.shortlist_tree, *spec.clusters.tail_trees]
    starts = [
        None if tree == head.tree else SoftmaxStart(head, tree, of_part)
        for head, tree, of_part in zip(heads, trees, counts, strict=True)
    ]
    grown = _continued(layer, spec.num_classes, spec.get_config(), starts)
    pairs = zip(layer.projections, grown.projections, strict=True)
    for projection, copy in pairs:
        if projection is not None:
            copy.assign(projection.value)
    return grown


def kept(layer, grown):
    """Returns which rows of a layer's variables go on in a grown layer.

    Returns:
      By the ids of the layer's variables, the row that each row of the grown
      layer's variable goes on from, or -1; see `kept_rows.copy`.
    """
    found = {}
    heads = zip(layer._tree_heads(), grown._tree_heads(), strict=True)
    for head, grown_head in heads:
        tree = grown_head.tree
        if tree == head.tree:  # perhaps pinned
            rows = np.arange(tree.num_weight_rows)
        else:
            rows = weight_rows(head.tree, head.rows_for(tree))
        found |= {id(variable): rows for variable in head.variables()}
    return found


def _continued(layer, num_classes, config, starts):
    return continued.make(
        layer,
        layer.objective.for_classes(num_classes),
        config,
        lambda grown: kept(layer, grown),
        starts,
    )
