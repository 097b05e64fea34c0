"""How often a loop of a graph runs, from its counters."""

import operator

import numpy as np
import tensorflow as tf

from tf_hsm.runtime import private_tensorflow

_MOST = 100_000  # a loop of more turns is not followed
_FUNCTIONS = {
    "Add": operator.add,
    "AddV2": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Less": operator.lt,
    "LessEqual": operator.le,
    "Greater": operator.gt,
    "GreaterEqual": operator.ge,
    "NotEqual": operator.ne,
    "Minimum": np.minimum,
    "Maximum": np.maximum,
    "Max": lambda values, axes: np.max(values, tuple(np.atleast_1d(axes))),
    "Min": lambda values, axes: np.min(values, tuple(np.atleast_1d(axes))),
    "Cast": np.asarray,
    "Identity": np.asarray,
}


def graph_of(operation, name):
    """Returns the graph of the function that an attribute of an op names."""
    function = operation.get_attr(name)
    return private_tensorflow.function_graph(operation.graph, function.name)


def trips(operation, trips_of):
    """Returns how often a loop runs, or None if its counters do not tell.

    A loop that its data may end counts as if they did not.

    Args:
      operation: a "While" or "StatelessWhile".
      trips_of: by the names of loops of the graph, how often they run.
    """
    condition, body = (graph_of(operation, name) for name in ("cond", "body"))
    values = [_scalar(_value(t, {}, trips_of)) for t in operation.inputs]
    for count in range(_MOST):
        again = _value(condition.outputs[0], _by(condition, values), {})
        if again is None:
            return None
        if not again:
            return count
        known = _by(body, values)
        values = [
            None if value is None else _scalar(_value(after, known, {}))
            for value, after in zip(values, body.outputs, strict=True)
        ]
    return None


def _by(graph, values):
    return {
        tensor.ref(): value
        for tensor, value in zip(graph.inputs, values, strict=False)
        if value is not None
    }


def _value(tensor, known, trips_of):
    """Returns the value of a tensor, or None if it is not known.

    Args:
      tensor: of a graph.
      known: values by the references of tensors.
      trips_of: as for `trips`.
    """
    if tensor.ref() in known:
        return known[tensor.ref()]
    value = tf.get_static_value(tensor)
    if value is not None:
        return value
    op = tensor.op
    if op.type in ("While", "StatelessWhile") and tensor.value_index == 0:
        return trips_of.get(op.name)
    if op.type != "LogicalAnd" and op.type not in _FUNCTIONS:
        return None
    values = [_value(t, known, trips_of) for t in op.inputs]
    if op.type == "LogicalAnd":
        values = [value for value in values if value is not None]
        return all(values) if values else None
    if any(value is None for value in values):
        return None
    return _FUNCTIONS[op.type](*values)


def _scalar(value):
    return value if value is not None and np.ndim(value) == 0 else None
