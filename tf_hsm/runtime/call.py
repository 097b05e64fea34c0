"""The one way to call an op that takes weights, as a tensor or as a variable.

Such an op has two forms, called `name` and `resource_name` in `raw_ops`. All
arguments are passed by name, and what the op returns is returned.
"""

import tensorflow as tf

from tf_hsm.runtime import arguments, gradients
from tf_hsm.runtime.library import raw_ops


def op(name, dtype, weights, **others):
    """Calls the op for weights of `dtype`, a tensor or a variable's handle."""
    if weights.dtype != tf.resource:
        return getattr(raw_ops, name)(weights=weights, **others)
    # A handle does not tell the type.
    on_variable = getattr(raw_ops, f"resource_{name}")
    return on_variable(weights=weights, T=dtype, **others)


def forward(name, weights, biases, inputs, **others):
    """Calls the op on what users pass as weights, biases and inputs."""
    (weights, *biases), dtype = arguments.parameters(weights, biases)
    return op(
        name,
        dtype,
        weights,
        biases=biases,
        inputs=arguments.floats(inputs, dtype),
        Taccumulator=arguments.accumulator(dtype),
        **others,
    )


def backward(name, forward_op, **others):
    """Calls the op, a gradient, on all inputs of the operation before it."""
    inputs = gradients.inputs_of(forward_op)
    return op(name, forward_op.get_attr("T"), **inputs, **others)
