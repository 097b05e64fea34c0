"""The one way to call an op that takes weights, as a tensor or as a variable.

Such an op has two forms, called `name` and `resource_name` in `raw_ops`. All
arguments are passed by name, and what the op returns is returned.
"""

import tensorflow as tf

from tf_hsm.runtime import arguments, private_tensorflow
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.quantized_rows import QuantizedRows
from tf_hsm.runtime.tree_tensors import child_tensors
from tf_hsm.runtime.variables import handle_of


def op(name, dtype, weights, **others):
    """Calls the op for weights of `dtype`, a tensor or a variable's handle.

    Raises:
      LookupError: a `tf.autodiff.ForwardAccumulator` asks for products.
    """
    watched = [weights, *others.get("biases", [])]
    if "inputs" in others:
        watched.append(others["inputs"])
    if private_tensorflow.in_forward_mode(watched):
        raise LookupError(
            "a head has first-order gradients by tf.GradientTape only: no "
            "forward mode (tf.autodiff.ForwardAccumulator)"
        )
    if weights.dtype == tf.resource:
        # A handle does not tell the type.
        name, others = f"resource_{name}", {**others, "T": dtype}
    return getattr(raw_ops, name)(weights=weights, **others)


def forward(name, weights, biases, inputs, optional=None, **others):
    """Calls the op on what users pass as weights, biases and inputs.

    Args:
      name: of the op.
      weights: as users pass them.
      biases: as users pass them, or None.
      inputs: as users pass them.
      optional: of arguments that are lists of one tensor of the accumulator's
        type, or of none: name -> what users pass, or None.
      **others: as the op takes them.

    Raises:
      TypeError: weights are quantized, and the op takes no scales.
    """
    if isinstance(weights, QuantizedRows) and "scales" not in others:
        raise TypeError(
            "quantized weights are for top_k, log_prob, log_probs and sample "
            "alone; losses and training need the weights as floats"
        )
    (weights, *biases), dtype = arguments.parameters(weights, biases)
    accumulator = arguments.accumulator(dtype)
    for argument, value in (optional or {}).items():
        given = [] if value is None else [tf.cast(value, accumulator)]
        others[argument] = given
    return op(
        name,
        dtype,
        weights,
        biases=biases,
        inputs=arguments.floats(inputs, dtype),
        Taccumulator=accumulator,
        **others,
    )


def down_tree(
    name,
    weights,
    biases,
    inputs,
    tree,
    optional,
    logit_soft_cap=None,
    **others,
):
    """Calls `forward` of an op that goes down a tree or a forest."""
    scales = []
    if isinstance(weights, QuantizedRows):
        scales.append(handle_of(weights.scales))
        inputs = arguments.of_width(inputs, weights.width)
    arrays = child_tensors(tree, near=weights)._asdict()
    return forward(
        name,
        weights,
        biases,
        inputs,
        optional,
        root_groups=[arrays.pop("root_groups")],
        scales=scales,
        pinned=tree.pinned,
        logit_soft_cap=arguments.soft_cap(logit_soft_cap),
        **arrays,
        **others,
    )


def if_used(function, tensor):
    """`function(tensor)`, left out of a graph that has no use for the result.

    TensorFlow runs each op that reads a variable if anything takes its outputs,
    though nothing takes what comes of those. Here they are ops of a function,
    and a call of that, which must change no variable, is one op.
    """
    if tf.executing_eagerly():
        return function(tensor)
    inner = tf.function(function, autograph=False)
    inner = inner.get_concrete_function(tensor)
    given = [tensor, *inner.captured_inputs]
    (output,) = tf.raw_ops.PartitionedCall(
        args=given, Tout=[o.dtype for o in inner.outputs], f=inner
    )
    handles = [i for i, x in enumerate(given) if x.dtype == tf.resource]
    private_tensorflow.declare_reads(output.op, handles)
    return tf.ensure_shape(output, inner.outputs[0].shape)
