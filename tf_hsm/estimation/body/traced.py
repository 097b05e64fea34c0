"""Layers without a formula: their graph of TensorFlow is made, and counted."""

import inspect
import math

import keras
import numpy as np
import tensorflow as tf

from tf_hsm.estimation.body import shapes as shapes_of
from tf_hsm.estimation.part import NO_WORK, Part, Work
from tf_hsm.ops import flops as _  # noqa: F401, for tf.profiler
from tf_hsm.runtime import private_tensorflow

# Ops that move nothing: they name, shape or steer.
_FREE = {
    *("Const", "Identity", "IdentityN", "NoOp", "Placeholder", "Reshape"),
    *("Shape", "ShapeN", "Size", "Rank", "ExpandDims", "Squeeze", "Pack"),
    *("ReadVariableOp", "VarHandleOp", "StridedSlice", "Range", "Assert"),
    *("BroadcastGradientArgs", "ControlTrigger", "PreventGradient"),
    *("TensorListFromTensor", "TensorListReserve", "EmptyTensorList"),
    *("TensorListPopBack", "TensorListPushBack", "TensorListElementShape"),
    "StopGradient",
}
_LOOPS = ("While", "StatelessWhile")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")

# Whether the first factor of a product is transposed, an attribute.
_PRODUCTS = {
    "MatMul": "transpose_a",
    "BatchMatMul": "adj_x",
    "BatchMatMulV2": "adj_x",
    "BatchMatMulV3": "adj_x",
}
# Tensors of the size of the output, and of the kernel.
_CONVOLUTIONS = {
    "Conv3D": lambda op: (op.outputs[0], op.inputs[1]),
    "Conv3DBackpropInputV2": lambda op: (op.inputs[2], op.inputs[1]),
    "Conv3DBackpropFilterV2": lambda op: (op.inputs[2], op.outputs[0]),
}


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
    forward_work, missing = count(forward, trips)
    backward_work, more = count(backward, trips)
    made = {t.ref() for op in forward for t in op.outputs}
    read = {t.ref() for op in backward for t in op.inputs}
    kept = {t.ref() for t in outputs} | (made & read)
    saved = [_bytes_of(t.deref()) for t in kept]
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


def count(operations, trips_of=None):
    """Returns the `Work` of operations, and names of what was not counted.

    FLOPs are counted as by `tf.profiler`; another op with floating point
    outputs has one for each number. A loop counts as often as it runs at most;
    of branches, the one with most FLOPs counts. The dict `trips_of` keeps how
    often loops run, for the loops of their gradients.
    """
    total, uncounted = NO_WORK, []
    trips_of = {} if trips_of is None else trips_of
    for operation in operations:
        work, missing = _count_one(operation, trips_of)
        total += work
        uncounted += missing
    return total, uncounted


def _bytes_of(tensor):
    """Returns the bytes of a tensor; 0 where its shape is not known."""
    if tensor.dtype in (tf.variant, tf.resource, tf.string):
        return 0
    return (tensor.shape.num_elements() or 0) * tensor.dtype.size


def _count_one(operation, trips_of):
    kind = operation.type
    if kind in _FREE:
        return NO_WORK, []
    if kind in _LOOPS:
        return _count_loop(operation, trips_of)
    if kind in _CALLS:
        return _count_function(operation, operation.get_attr("f"))
    if kind in _BRANCHES:
        if "If" in kind:
            names = ("then_branch", "else_branch")
            branches = [operation.get_attr(name) for name in names]
        else:
            branches = operation.get_attr("branches")
        counted = [_count_function(operation, branch) for branch in branches]
        return max(counted, key=lambda one: one[0].flops)
    flops = _flops_of(operation)
    outputs = [t for t in operation.outputs if t.dtype.is_floating]
    if flops is None:
        if any(t.shape.num_elements() is None for t in outputs):
            return NO_WORK, [f"{kind}: its shape is not known"]
        flops = sum(t.shape.num_elements() for t in outputs)
    moved = sum(map(_bytes_of, [*operation.inputs, *operation.outputs]))
    return Work(flops, moved, 1), []


def _count_function(operation, function):
    graph = private_tensorflow.function_graph(operation.graph, function.name)
    return count(graph.get_operations())


def _count_loop(operation, trips_of):
    """The second input of a loop is the most that it runs, or -1."""
    trips = _static_value(operation.inputs[1], trips_of)
    work, uncounted = _count_function(operation, operation.get_attr("body"))
    if trips is None or np.ndim(trips) or trips < 0:
        name = f"{operation.name}: how often the loop runs is not known"
        return work, [*uncounted, name]
    trips_of[operation.name] = int(trips)
    return work.times(int(trips)), uncounted


def _static_value(tensor, trips_of):
    """The value of a tensor; None if the graph alone does not give it."""
    value, op = tf.get_static_value(tensor), tensor.op
    if value is None and op.type in _LOOPS and tensor.value_index == 0:
        return trips_of.get(op.name)
    if value is None and op.type in ("Identity", "Cast", "Max"):
        value = _static_value(op.inputs[0], trips_of)
        if op.type == "Max" and value is not None:
            return np.max(value)
    return value


def _flops_of(operation):
    """Those that the profiler counts, or, of ops it does not know, we do."""
    kind = operation.type
    if kind == "Einsum":
        return _of_einsum(operation)
    if kind in _PRODUCTS:
        # The profiler takes no notice of a first factor that is transposed.
        factor, numbers = operation.inputs[0], operation.outputs[0].shape
        is_transposed = operation.get_attr(_PRODUCTS[kind])
        depth = factor.shape[-2 if is_transposed else -1]
        numbers = numbers.num_elements()
        return None if None in (numbers, depth) else 2 * numbers * depth
    if kind in _CONVOLUTIONS:
        outputs, kernel = _CONVOLUTIONS[kind](operation)
        numbers = outputs.shape.num_elements()
        depth = kernel.shape[:-1].num_elements()
        return None if None in (numbers, depth) else 2 * numbers * depth
    return private_tensorflow.flops_of(operation)


def _of_einsum(operation):
    """2 for each combination of its indices."""
    equation = operation.get_attr("equation").decode()
    sizes = {}
    terms = equation.split("->")[0].split(",")
    for term, tensor in zip(terms, operation.inputs, strict=True):
        if len(term) != tensor.shape.rank:  # "..." stands for several
            return None
        sizes |= zip(term, tensor.shape.as_list(), strict=True)
    return None if None in sizes.values() else 2 * math.prod(sizes.values())
