"""Every use of a Keras interface that is not public, in one place."""

from keras.src import backend
from keras.src.backend.common.variables import AutocastScope


def no_autocast():
    """A scope in which variables keep their type, within a layer's call too."""
    return AutocastScope(None)


def output_spec(function, **tensors):
    """The KerasTensors that a function returns for some, found by tracing."""
    return backend.compute_output_spec(function, **tensors)


def optimizer_of_model(layer):
    """The optimizer of the compiled model that is calling `layer`, or None."""
    return getattr(layer._get_call_context().entry_layer, "optimizer", None)


def loss_weights_of_model(layer):
    """The `loss_weights` with which that model was compiled, or None."""
    model = layer._get_call_context().entry_layer
    loss = getattr(model, "_compile_loss", None)
    return getattr(loss, "_user_loss_weights", None)
