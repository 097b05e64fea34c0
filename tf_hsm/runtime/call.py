"""The one way to call an op that takes weights, as tensors or variables.

Such an op has two forms, `name` and `resource_name`. Here the form is chosen.
All arguments are passed by name.
"""

import functools

import tensorflow as tf

from tf_hsm.runtime import arguments, gradients, private_tensorflow
from tf_hsm.runtime.library import raw_ops


def op(name, on_variable, dtype):
    """Returns a function that calls the op by its other arguments.

    Args:
      name: of the form for tensors, as in `raw_ops`.
      on_variable: whether the weights are a handle.
      dtype: the type of the weights, which a handle does not tell.
    """
    if not on_variable:
        return getattr(raw_ops, name)
    return functools.partial(getattr(raw_ops, f"resource_{name}"), T=dtype)


def forward(name, weights, biases, inputs, **others):
    """Calls the op `name` on what users pass.

    Args:
      name: as for `op`.
      weights: `[rows, width]`, a tensor or a variable.
      biases: `[rows]`, or None.
      inputs: `[..., width]`.
      **others: the op's other inputs and attributes.

    Returns:
      What the op returns.
    """
    parameters = arguments.parameters(weights, biases)
    for variable in parameters.variables:
        if variable is not None:
            # For gradients, and for exports of functions with their variables.
            private_tensorflow.tell_tape(variable)
    return op(name, parameters.on_variable, parameters.dtype)(
        weights=parameters.arguments[0],
        biases=parameters.arguments[1:],
        inputs=arguments.floats(inputs, parameters.dtype),
        Taccumulator=arguments.accumulator(parameters.dtype),
        **others,
    )


def backward(name, forward_op, **others):
    """Calls the op `name`, a gradient, on the inputs of the op before it.

    Args:
      name: as for `op`.
      forward_op: the operation whose gradient is asked for.
      **others: the gradient op's other inputs and attributes.

    Returns:
      What the op returns.
    """
    inputs = gradients.inputs_of(forward_op)
    on_variable = inputs["weights"].dtype == tf.resource
    return op(name, on_variable, forward_op.get_attr("T"))(**inputs, **others)
