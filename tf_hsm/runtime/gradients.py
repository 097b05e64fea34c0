"""What the gradient functions of the ops share."""

import functools

import tensorflow as tf

from tf_hsm.runtime import private_tensorflow


def inputs_of(op):
    """Returns the inputs of an operation by name: tensors, or lists of them."""
    inputs, rest = {}, list(op.inputs)
    for argument in private_tensorflow.op_definition(op.type).input_arg:
        if argument.type_list_attr or argument.number_attr:
            size = (
                len(op.get_attr(argument.type_list_attr))
                if argument.type_list_attr
                else op.get_attr(argument.number_attr)
            )
            inputs[argument.name], rest = rest[:size], rest[size:]
        else:
            inputs[argument.name], *rest = rest
    return inputs


def in_order(op, **gradients):
    """Returns one gradient per input of an operation; None if not given.

    Args:
      op: the operation.
      **gradients: by the name of the input: one; or for a list of inputs, one
        for all of them.
    """
    return [
        gradients.get(name)
        for name, value in inputs_of(op).items()
        for _ in (value if isinstance(value, list) else [value])
    ]


def on_forward_device(gradient):
    """Makes a gradient function's ops run on the device of the op itself.

    A tape runs them in the device scope of whoever asks for the gradient. But
    what an op keeps for its gradient lies in the memory of its device, and the
    kernel for that kind of device decides on the layout of what the loss keeps.
    Where TensorFlow places the op, it places the gradient too.
    """

    @functools.wraps(gradient)
    def on_device(op, *grads):
        with tf.device(op.outputs[0].device or None):
            return gradient(op, *grads)

    return on_device


def first_order_only(gradient):
    """Makes a second derivative of what an op computed an error.

    Any tape outside would take it for a constant, and see zero.
    """
    return tf.raw_ops.PreventGradient(
        input=gradient,
        message="the hierarchical softmax loss has first-order gradients only",
    )
