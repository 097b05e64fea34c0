"""Layers without a formula: their graph is made, and counted."""

import inspect
import math

import keras
import tensorflow as tf

from tf_hsm.estimation.body import graph_work
from tf_hsm.estimation.body import shapes as shapes_of
from tf_hsm.estimation.part import Part


def formula(layer, shapes, dtypes, fill=None):
    """Traces a call of a layer and its gradient, and counts both.

    Args:
      layer: a Keras layer, an operation of `keras.ops`, or a model.
      shapes: of its inputs, all sizes known.
      dtypes: of its inputs, names.
      fill: makes args and kwargs of a list of inputs; None: they are the args.

    Returns:
      A `Part` without variables. What it saves are the tensors that its
      gradient reads.
    """
    try:
        with shapes_of.without_values():
            return _formula(layer, shapes, dtypes, fill)
    # A layer of the user's own may do anything, and this is no call of it.
    except Exception as error:
        reason = " ".join(str(error).split())[:100]
        what = f"FLOPs and memory: tracing it failed ({reason})"
        return Part(uncounted=(what,))


def _formula(layer, shapes, dtypes, fill):
    if isinstance(layer, keras.layers.Layer) and not layer.built:
        layer = shapes_of.built_without_values(layer, shapes)
    with tf.Graph().as_default() as graph:
        inputs = [
            tf.compat.v1.placeholder(dtype, shape)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]
        weights, states = (
            [tf.compat.v1.placeholder(v.dtype, v.shape) for v in variables]
            for variables in (
                getattr(layer, "trainable_variables", ()),
                getattr(layer, "non_trainable_variables", ()),
            )
        )
        given = len(graph.get_operations())
        with tf.GradientTape() as tape:
            watched = [t for t in [*inputs, *weights] if t.dtype.is_floating]
            tape.watch(watched)
            args, kwargs = fill(inputs) if fill else (inputs, {})
            if isinstance(layer, keras.layers.Layer):
                if "training" in inspect.signature(layer.call).parameters:
                    kwargs = kwargs | {"training": True}
                outputs, _ = layer.stateless_call(
                    weights, states, *args, **kwargs
                )
            else:
                outputs = layer(*args, **kwargs)
        outputs = [t for t in tf.nest.flatten(outputs) if t.dtype.is_floating]
        forward = graph.get_operations()[given:]
        gradients = [None] * len(watched)
        if outputs and watched:
            gradients = tape.gradient(outputs, watched)
        backward = graph.get_operations()[given + len(forward) :]
    trips = {}
    forward_work, missing = graph_work.count(forward, trips)
    backward_work, more = graph_work.count(backward, trips)
    made = {t.ref() for op in forward for t in op.outputs}
    read = {t.ref() for op in backward for t in op.inputs}
    kept = {t.ref() for t in outputs} | (made & read)
    saved = [graph_work.bytes_of(t.deref()) for t in kept]
    of_weights = gradients[len(watched) - len(weights) :]
    return Part(
        saved_bytes=sum(saved),
        tensor_bytes=max(saved, default=0),
        backward_bytes=sum(
            math.prod(shape) * tf.as_dtype(dtype).size
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ),
        forward=forward_work,
        backward=backward_work,
        touched=tuple(map(_rows, of_weights)),
        uncounted=tuple(dict.fromkeys([*missing, *more])),
    )


def _rows(gradient):
    """The rows of a sparse gradient; None if it is dense."""
    if not isinstance(gradient, tf.IndexedSlices):
        return None
    return gradient.indices.shape.num_elements()
