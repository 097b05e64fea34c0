"""Layers that continue the rows of an earlier layer, with another tree."""

from tf_hsm.heads.tree_head import TiedHead
from tf_hsm.layers import quantized
from tf_hsm.runtime import kept_rows


def only_head(layer, method):
    """Returns the head of a layer with one tree on one device.

    Args:
      layer: a built layer.
      method: the layer's method that asks, "grow" or "prune", for the errors.

    Raises:
      ValueError: the layer is not built, is on several devices, is quantized,
        or has the rows of an Embedding.
    """
    if layer.plan is not None:
        raise ValueError(
            f"{layer.name} has its rows on several devices; copy it to a "
            f"layer without a plan by tf_hsm.distribute.copy_weights, {method} "
            "that, and copy it to one with a plan of the new tree"
        )
    quantized.check_floats(layer, method)
    (head,) = layer._tree_heads()
    if isinstance(head, TiedHead):
        raise ValueError(
            f"{layer.name}: {method} is not possible with tied_to, whose rows "
            "are the Embedding's; make an Embedding of the new size, copy the "
            "rows, and make the head anew"
        )
    return head


def make(layer, objective, config, kept, starts=None):
    """Makes a layer of another config and copies the rows that go on.

    Args:
      layer: the old layer.
      objective: the objective of the new layer.
      config: what else changes in the layer's config.
      kept: a function from the new layer to the rows that go on: by the ids of
        the old layer's variables, the row that each row of the new layer's
        variable goes on from, or -1.
      starts: the start values of new rows for each of `layer._tree_heads()`;
        None where there are no new rows.
    """
    old_config = layer.get_config()
    objective = objective.get_config()
    objective = {k: v for k, v in objective.items() if k in old_config}
    made = type(layer).from_config({**old_config, **objective, **config})
    heads = layer._tree_heads()
    made.build([None, heads[0].weights.shape[1]])
    rows = kept(made)
    starts = starts or [None] * len(heads)
    for old, new, start in zip(heads, made._tree_heads(), starts, strict=True):
        kept_rows.copy(
            old.weights,
            new.weights,
            rows[id(old.weights)],
            start and start.kernel,
        )
        if old.biases is not None:
            kept_rows.copy(
                old.biases,
                new.biases,
                rows[id(old.biases)],
                start and start.bias,
            )
    if layer.optimizer is not None and layer.optimizer.built:
        kept_rows.copy_optimizer(layer.optimizer, made.optimizer, rows)
    return made
