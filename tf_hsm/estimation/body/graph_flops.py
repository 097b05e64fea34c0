"""Counts what a graph of TensorFlow does, its loops included."""

import tensorflow as tf

from tf_hsm.estimation.part import NO_WORK, Work
from tf_hsm.runtime import private_tensorflow

# Ops that move nothing: they name, shape or steer.
_FREE = {
    *("Const", "Identity", "IdentityN", "NoOp", "Placeholder", "Reshape"),
    *(
        "Shape",
        "ShapeN",
        "Size",
        "Rank",
        "ExpandDims",
        "Squeeze",
        "StopGradient",
    ),
    *("ReadVariableOp", "VarHandleOp", "StridedSlice", "Pack", "Range"),
    *("BroadcastGradientArgs", "ControlTrigger", "PreventGradient", "Assert"),
    *("TensorListFromTensor", "TensorListReserve", "EmptyTensorList"),
    *("TensorListPopBack", "TensorListPushBack", "TensorListElementShape"),
}
_LOOPS = ("While", "StatelessWhile")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")


def count(operations, trips_of=None):
    """Counts the `Work` of operations of a graph.

    FLOPs are those that `tf.profiler` counts; of other ops with floating point
    outputs, one for each number. A loop counts as often as it runs; of
    branches, the one with most FLOPs counts.

    Args:
      operations: a list of `tf.Operation`s.
      trips_of: a dict that keeps how often loops run, for the loops of their
        gradients.

    Returns:
      The `Work`, and a list of names of what could not be counted.
    """
    total, uncounted = NO_WORK, []
    trips_of = {} if trips_of is None else trips_of
    for operation in operations:
        work, missing = _count_one(operation, trips_of)
        total += work
        uncounted += missing
    return total, uncounted


def bytes_of(tensor):
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
        return count(_operations(operation, "f"), {})
    if kind in _BRANCHES:
        names = ["then_branch", "else_branch"] if "If" in kind else ["branches"]
        counted = [count(_operations(operation, name), {}) for name in names]
        return max(counted, key=lambda one: one[0].flops)
    flops = private_tensorflow.flops_of(operation)
    outputs = [t for t in operation.outputs if t.dtype.is_floating]
    unknown = any(t.shape.num_elements() is None for t in outputs)
    if flops is None:
        flops = sum(t.shape.num_elements() or 0 for t in outputs)
        if unknown:
            return NO_WORK, [f"{kind}: its shape is not known"]
    moved = sum(map(bytes_of, [*operation.inputs, *operation.outputs]))
    return Work(flops, moved, 1), []


def _count_loop(operation, trips_of):
    trips = _trips(operation, trips_of)
    work, uncounted = count(_operations(operation, "body"), {})
    if trips is None:
        name = f"{operation.name}: how often the loop runs is not known"
        return work, [*uncounted, name]
    trips_of[operation.name] = trips
    return work.times(trips), uncounted


def _trips(operation, trips_of):
    """How often a loop runs: at most, where a step may end it; or None."""
    limit = tf.get_static_value(operation.inputs[1])
    if limit is not None and limit.ndim == 0 and limit >= 0:
        return int(limit)
    # The gradient's runs as often as the loop itself, which has counted.
    source = operation.inputs[1].op
    while source.type == "Identity":
        source = source.inputs[0].op
    return trips_of.get(source.name)


def _operations(operation, name):
    graph = private_tensorflow.function_graph(operation, name)
    return graph.get_operations()
