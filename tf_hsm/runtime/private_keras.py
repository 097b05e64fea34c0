"""The private interfaces of Keras that this package needs.

private_optimizer.py has those that optimizers and copies of optimizers need.
"""

import contextlib

import tensorflow as tf
from keras.src import backend
from keras.src.backend.common import global_state, symbolic_scope
from keras.src.backend.common.variables import AutocastScope
from keras.src.saving import serialization_lib


def no_autocast():
    """A scope in which variables keep their type, within a layer's call too."""
    return AutocastScope(None)


def in_symbolic_scope():
    """Whether shapes alone are asked for.

    Before `fit` under a strategy, Keras passes placeholders through the model,
    the metrics and the loss one by one: to these, without what tensors carry.
    """
    return symbolic_scope.in_symbolic_scope()


def called():
    """The model or layer that the user, or `fit`, is calling, or None."""
    context = global_state.get_global_attribute("current_call_ctx")
    return None if context is None else context.entry_layer


def mask_of(tensor):
    """The Keras mask of a tensor, or None."""
    return backend.get_keras_mask(tensor)


def set_mask(tensor, mask):
    """Gives a tensor a Keras mask, unless it is None; returns the tensor."""
    if mask is not None:
        backend.set_keras_mask(tensor, mask)
    return tensor


def never_autocast(variable):
    """Lets a Keras variable be read as it is under mixed precision."""
    variable._autocast = False


def shared_object(config):
    """The object that Keras has made of a config of the same file, or None."""
    number = config.get("shared_object_id")
    return number and serialization_lib.get_shared_object(number)


def forget_traces(model):
    """Lets Keras trace the functions of a model again, within `fit` too."""
    if model.train_function is not None:
        model.make_train_function(force=True)
    # Made where they are asked for; `fit` may have the first one already.
    model.test_function = model.predict_function = None


def own_variables(layer):
    """The variables of a layer itself, without the variables of layers in it.

    Keras saves them in this order.
    """
    return layer._trainable_variables + layer._non_trainable_variables


def mark_quantized(layer):
    """Says that a layer is quantized, which Keras then does not do again."""
    layer._is_quantized = True


def untrack(layer, variable):
    """Takes a variable out of the weights of a layer."""
    layer._untrack_variable(variable)


def layers_of(model):
    """All layers of a model, also those within others.

    `model.layers` leaves out the layers within a layer that is no model. And
    `tf.train.TrackableView` finds no layers in lists, and none of a Sequential
    model before it is built.
    """
    return list(model._flatten_layers())


@contextlib.contextmanager
def kept_losses(model):
    """Keeps what the layers of a model or layer have added to its losses.

    Replicas run in turns, which change where they exchange something. They
    share the layers, whose losses Keras drops where a replica begins.
    """
    layers = layers_of(model)
    losses = [layer._losses[:] for layer in layers]
    yield
    for layer, added in zip(layers, losses, strict=True):
        layer._losses[:] = added


def lack_values(variables):
    """Whether some variables were made in a graph that has not run yet."""
    with tf.init_scope():
        return tf.executing_eagerly() and not all(
            variable._value is None or variable._value.is_initialized()
            for variable in variables
        )


def initialize_within(variable, make_scope):
    """Lets a variable be made later within `make_scope()`."""
    if variable._value is not None:
        return
    initialize = variable._deferred_initialize

    def within_scope():
        with make_scope():
            initialize()

    variable._deferred_initialize = within_scope


def waiting_variables():
    """The list of variables that Keras makes where a `StatelessScope` ends."""
    return global_state.get_global_attribute(
        "uninitialized_variables", [], set_to_default=True
    )


def output_names_of(model):
    """The names of a model's outputs; none if the model does not name them."""
    return getattr(_graph_of(model), "output_names", None) or []


def _graph_of(model):
    """The functional model that a Sequential model has, or the model."""
    return getattr(model, "_functional", None) or model


def nodes_of(model):
    """The calls of layers in a model, in order; None if they are not known."""
    nodes = getattr(_graph_of(model), "_nodes_by_depth", None)
    return nodes and [n for d in sorted(nodes, reverse=True) for n in nodes[d]]


def compiled_with(model):
    """Lists the loss, metrics and weighted metrics that `compile` was given.

    Its config cannot tell a loss from another of its class.
    """
    loss, metrics = model._compile_loss, model._compile_metrics
    return [
        getattr(loss, "_user_loss", None),
        getattr(metrics, "_user_metrics", None),
        getattr(metrics, "_user_weighted_metrics", None),
    ]
