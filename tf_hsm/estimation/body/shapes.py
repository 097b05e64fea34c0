"""Layers without values, and the shapes that they are built for."""

import contextlib

import keras

from tf_hsm.runtime import model_calls, private_keras


@contextlib.contextmanager
def without_values():
    """Variables of Keras made within have shapes and types, but no memory.

    For models that are too large to be made, and are never to run:

    >>> with tf_hsm.estimation.without_values():
    ...     model = make_model()
    >>> tf_hsm.estimate(model, batch=32)
    """
    waiting = private_keras.waiting_variables()
    known = waiting[:]
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        private_keras.waiting_variables()[:] = known


def built_without_values(layer, shapes):
    """Returns a copy of a layer, built for inputs of some shapes."""
    with without_values():
        copy = type(layer).from_config(layer.get_config())
        copy.build(*shapes)
    return copy


def build_shapes_of(layer):
    """The shapes that a built layer or model was built for, a list."""
    config, found = layer.get_build_config() or {}, []
    shapes = config.get("shapes_dict", {}).values()
    if "input_shape" in config:
        shapes = [config["input_shape"]]
    for shape in shapes:
        is_one = all(size is None or isinstance(size, int) for size in shape)
        several = shape.values() if isinstance(shape, dict) else shape
        found += [shape] if is_one else several
    return [tuple(shape) for shape in found]


def output_shape_of(model):
    """The shape of what a built model or layer returns, or of its first."""
    if model_calls.calls_of(model) is not None:
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
    """The shapes of what a `Call` returns for inputs of some shapes."""
    inputs = [
        keras.KerasTensor(shape, given.dtype)
        for shape, given in zip(shapes, call.inputs, strict=True)
    ]
    args, kwargs = call.filled(inputs)
    outputs = call.operation.compute_output_spec(*args, **kwargs)
    return [tuple(t.shape) for t in keras.tree.flatten(outputs)]
