"""The private interfaces of Keras that this package needs.

private_compile.py has the interfaces of `compile`, and private_optimizer.py has
those that optimizers and copies of optimizers need.
"""

import contextlib
import inspect
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras.src import backend
from keras.src.backend.common import global_state, symbolic_scope
from keras.src.backend.common.variables import AutocastScope
from keras.src.saving import serialization_lib

from tf_hsm.runtime import private_tensorflow


def no_autocast():
    """A scope in which variables keep their type, within a layer's call too."""
    return AutocastScope(None)


def output_spec(function, **tensors):
    """The KerasTensors that a function returns for some, found by tracing."""
    return backend.compute_output_spec(function, **tensors)


def in_symbolic_scope():
    """Whether shapes alone are asked for.

    Before `fit` under a strategy, Keras passes placeholders through the model,
    the metrics and the loss one by one: to these, without what tensors carry.
    """
    return symbolic_scope.in_symbolic_scope()


def compiled_model():
    """The compiled model that is being called, or None."""
    model = _called()
    return model if getattr(model, "compiled", False) else None


_STEPS = {"train_step", "test_step"}
_ENTRIES = {"fit", "evaluate", "train_on_batch", "test_on_batch"}


class TrainerStep(NamedTuple):
    """A step of `fit` or `evaluate` that is running or being traced.

    Attributes:
      is_of_keras: whether Keras wrote the method, not the user.
      sample_weight: what `fit` or the data set gives as such; or None.
    """

    is_of_keras: bool
    sample_weight: Any


def trainer_step_of(model):
    """The `TrainerStep` that calls a model, or None outside such a step.

    Keras passes a model the same arguments in `evaluate` as in `predict`, and
    no sample weights, which it drops if there are no labels. So this looks at
    the functions that have called the caller.
    """
    step, frame = None, inspect.currentframe()
    while frame is not None:
        name, values = frame.f_code.co_name, frame.f_locals
        names = frame.f_code.co_varnames
        if step is None and name in _STEPS and _owner_of(frame) is model:
            module = frame.f_globals.get("__name__", "")
            data = values.get(names[1]) if len(names) > 1 else None
            step = TrainerStep(
                module.split(".")[0] == "keras", _sample_weight_in(data)
            )
        elif step and name in _ENTRIES and _owner_of(frame) is model:
            if step.sample_weight is None:
                given = values.get("sample_weight")
                step = step._replace(sample_weight=given)
            break
        frame = frame.f_back
    return step


def is_training_step(model):
    """Whether Keras' own `train_step` calls a model, which may be None."""
    if model is None or not private_tensorflow.has_tape():
        return False
    step = trainer_step_of(model)
    return step is not None and step.is_of_keras


def _owner_of(frame):
    """The value of the first argument of a function that is running."""
    names = frame.f_code.co_varnames
    return frame.f_locals.get(names[0]) if names else None


def _sample_weight_in(data):
    is_tuple = isinstance(data, (list, tuple)) and 0 < len(data) <= 3
    return keras.utils.unpack_x_y_sample_weight(data)[2] if is_tuple else None


def called_weights():
    """The weights of the model or layer that is being called, a list."""
    called = _called()
    return [] if called is None else called.weights


def _called():
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
    """The object that Keras has made of a config while it loads a file.

    Args:
      config: of an object that is in the file more than once.

    Returns:
      The object, or None if Keras knows none of this config.
    """
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


def optimizer_of_model():
    """The optimizer of the compiled model that is being called, or None."""
    return getattr(compiled_model(), "optimizer", None)


def callbacks_of_fit():
    """The callbacks of the `model.fit` that is calling, a list.

    No interface of Keras has them: they are a variable of `fit`.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "fit":
            found = frame.f_locals.get("callbacks")
            if isinstance(found, keras.callbacks.CallbackList):
                return list(found.callbacks)
        frame = frame.f_back
    return []


def decays(optimizer, variables):
    """Whether an optimizer would let one of the variables decay."""
    return getattr(optimizer, "weight_decay", None) is not None and any(
        optimizer._use_weight_decay(v) for v in variables
    )


def takes_training(layer):
    """Whether a layer's or model's `call` has an argument `training`."""
    return "training" in inspect.signature(layer.call).parameters


def lack_values(variables):
    """Whether some variables were made in a graph that has not run yet."""
    with tf.init_scope():
        return tf.executing_eagerly() and not all(
            variable._value is None or variable._value.is_initialized()
            for variable in variables
        )


def initialize_within(variable, make_scope):
    """Lets a variable that Keras makes later be made within a scope.

    Args:
      variable: a Keras variable.
      make_scope: a function that returns the scope.
    """
    if variable._value is not None:
        return
    initialize = variable._deferred_initialize

    def within_scope():
        with make_scope():
            initialize()

    variable._deferred_initialize = within_scope


_WITHOUT_VALUES = "uninitialized_variables"


@contextlib.contextmanager
def without_values():
    """Variables of Keras made within have shapes and types, but no memory.

    For models that are too large to be made, and are never to run:

    >>> with tf_hsm.estimation.without_values():
    ...     model = make_model()
    >>> tf_hsm.estimate(model, batch=32)
    """
    waiting = global_state.get_global_attribute(
        _WITHOUT_VALUES, [], set_to_default=True
    )
    known = waiting[:]
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        waiting = global_state.get_global_attribute(_WITHOUT_VALUES, [])
        waiting[:] = known


def built_without_values(layer, shapes):
    """Returns a copy of a layer, built for inputs of some shapes.

    Args:
      layer: a Keras layer that is not built, and stays so.
      shapes: a list with the shape of each input.
    """
    with without_values():
        copy = type(layer).from_config(layer.get_config())
        copy.build(*shapes)
    return copy


class Call(NamedTuple):
    """A call of a layer or operation in a model.

    Attributes:
      operation: what is called.
      inputs: KerasTensors among the arguments.
      outputs: KerasTensors.
      arguments: all of them.
    """

    operation: Any
    inputs: list
    outputs: list
    arguments: Any

    def filled(self, tensors):
        """Returns args and kwargs with tensors in place of the inputs."""
        by_id = {
            id(given): tensor
            for given, tensor in zip(self.inputs, tensors, strict=True)
        }
        return self.arguments.fill_in(by_id)

    def first_argument(self):
        """Returns the first argument, or the one named `inputs`."""
        args, kwargs = self.arguments.args, self.arguments.kwargs
        return args[0] if args else kwargs["inputs"]


def calls_of(model):
    """The calls of a Functional or Sequential model, in their order.

    Returns:
      A list of `Call`s, the inputs of the model first, whose operation is an
      `InputLayer`; None for a model whose calls are not known beforehand.
    """
    model = getattr(model, "_functional", None) or model
    if not hasattr(model, "_nodes_by_depth"):
        return None
    nodes = model._nodes_by_depth
    return [
        Call(
            node.operation,
            node.arguments.keras_tensors,
            node.outputs,
            node.arguments,
        )
        for depth in sorted(nodes, reverse=True)
        for node in nodes[depth]
    ]


def build_shapes_of(layer):
    """The shapes that a built layer or model was built for, a list."""
    found = []
    for shape in (layer._build_shapes_dict or {}).values():
        is_one = all(size is None or isinstance(size, int) for size in shape)
        several = shape.values() if isinstance(shape, dict) else shape
        found += [shape] if is_one else several
    return [tuple(shape) for shape in found]


def output_shape_of(model):
    """The shape of what a built model or layer returns, or of its first."""
    if calls_of(model) is not None:
        return model.outputs[0].shape
    shapes = build_shapes_of(model)
    # Nothing tells whether it takes numbers or ids.
    for dtype in ("float32", "int32"):
        inputs = [keras.KerasTensor(shape, dtype) for shape in shapes]
        try:
            outputs = model.compute_output_spec(*inputs)
        except Exception:
            if dtype == "int32":
                raise
        else:
            return keras.tree.flatten(outputs)[0].shape
    return None


def output_shapes_of(call, shapes):
    """The shapes of what a `Call` returns for inputs of some shapes.

    Raises:
      ValueError: the operation takes no such shapes.
    """
    inputs = [
        keras.KerasTensor(shape, given.dtype)
        for shape, given in zip(shapes, call.inputs, strict=True)
    ]
    args, kwargs = call.filled(inputs)
    outputs = call.operation.compute_output_spec(*args, **kwargs)
    return [tuple(t.shape) for t in keras.tree.flatten(outputs)]
