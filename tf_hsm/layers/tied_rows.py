"""The rows of an adaptive softmax as the vectors of an input embedding."""

import tensorflow as tf

from tf_hsm.layers import in_place, quantized
from tf_hsm.layers.replicated import is_over_replicas
from tf_hsm.runtime import gradients


def vectors(layer, classes):
    """Returns the vectors `[..., width]` of classes; see `embed`."""
    check_embeds(layer)
    quantized.check_floats(layer, "an embedding")
    layer.row_variables()  # an error if the layer is not built
    step = layer.in_place.step(layer)
    look_up = gradients.look_up if step is None else step.gather
    found = layer._head.vectors(classes, look_up)
    found = tf.cast(found, layer.compute_dtype)
    if step is not None:
        return found
    return layer.in_place.without_gradient(
        layer, found, "these vectors", in_place.NO_TAPE
    )


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
