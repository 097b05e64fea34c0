"""The rows of an adaptive softmax as the vectors of an input embedding."""

import functools

import tensorflow as tf

from tf_hsm.heads import cluster_vectors
from tf_hsm.layers import quantized
from tf_hsm.layers.replicated import is_over_replicas
from tf_hsm.ops.in_place_step import rule_of
from tf_hsm.ops.rows_step import gather_to_step
from tf_hsm.runtime import gradients


def vectors(layer, classes):
    """Returns the vectors `[..., width]` of classes; see `embed`."""
    return _vectors(
        layer,
        classes,
        lambda table, rows: gradients.look_up(table.value, rows),
    )


def vectors_to_step(layer, classes):
    """Returns vectors whose rows make a step in the backward pass.

    Raises:
      ValueError: the rows would be rounded at random.
    """
    is_rounding = layer.stochastic_rounding is not False
    if layer.variable_dtype == "bfloat16" and is_rounding:
        raise ValueError(
            f"{layer.name}: bfloat16 rows that embed are rounded to nearest "
            "in their step; say stochastic_rounding=False, or leave out "
            "the layer's optimizer"
        )
    look_up = functools.partial(
        gather_to_step,
        optimizer=layer.optimizer,
        rule=rule_of(layer.optimizer),
    )
    return _vectors(layer, classes, look_up)


def check_embeds(layer):
    """Raises a ValueError if a layer is made without `width`, or is cut."""
    if is_over_replicas(layer):
        raise ValueError(
            f'{layer.name}: embed is not possible with devices="replicas", '
            "which lets each replica have some of the rows; make a "
            "keras.layers.Embedding for the inputs"
        )
    if layer.width is None:
        raise ValueError(
            f"{layer.name} embeds classes only if it is made with "
            "width, the width of its inputs"
        )


def _vectors(layer, classes, look_up):
    check_embeds(layer)
    quantized.check_floats(layer, "an embedding")
    layer.row_variables()  # an error if the layer is not built
    found = cluster_vectors.vectors(layer._head, classes, look_up)
    return tf.cast(found, layer.compute_dtype)
