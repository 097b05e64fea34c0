"""Calls of the ops that take inputs down the tree."""

from tf_hsm.runtime import arguments as runtime_arguments
from tf_hsm.runtime import private_tensorflow
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import descent_tensors


def descend(name, weights, biases, inputs, tree, **arguments):
    """Calls the op `name` on tensors, or its like on variables.

    Args:
      name: as in `raw_ops`.
      weights: `[rows, width]`, a tensor or a variable.
      biases: `[rows]`, or None.
      inputs: `[..., width]`.
      tree: a `tf_hsm.Tree`.
      **arguments: the other inputs and attributes of the op.

    Returns:
      What the op returns.
    """
    parameters = runtime_arguments.parameters(weights, biases)
    for variable in parameters.variables:
        if variable is not None:
            # For gradients, and for exports of functions with their variables.
            private_tensorflow.tell_tape(variable)
    if parameters.on_variable:
        name = f"resource_{name}"
        arguments["T"] = parameters.dtype
    return getattr(raw_ops, name)(
        weights=parameters.arguments[0],
        biases=parameters.arguments[1:],
        inputs=runtime_arguments.floats(inputs, parameters.dtype),
        **descent_tensors(tree)._asdict(),
        **arguments,
        Taccumulator=runtime_arguments.accumulator(parameters.dtype),
    )
