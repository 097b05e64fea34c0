"""A head for more classes, which goes on from the rows of an earlier one."""

import numpy as np

from tf_hsm.layers import continued, quantized
from tf_hsm.layers.replicated import is_over_replicas
from tf_hsm.layers.start_values import SoftmaxStart, weight_rows
from tf_hsm.tree.check import check_not_pinned
from tf_hsm.tree.tree import check_one_tree


def grow(layer, tree, counts=None, config=None, start=SoftmaxStart):
    """Returns a layer with another tree; see `HierarchicalSoftmax.grow`.

    Args:
      layer: a layer with one tree.
      tree: see `HierarchicalSoftmax.grow`.
      counts: of the new tree, or None.
      config: what changes in the layer's config; None: its tree.
      start: makes the start values of new rows from the old head, the new tree
        and the counts.
    """
    check_one_tree(tree)
    check_not_pinned(tree, "a head that grows")
    head = continued.only_head(layer, "grow")
    starts = [start(head, tree, counts)]
    config = config or {"tree": tree.get_config()}
    return _continued(layer, tree.num_classes, config, starts)


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
