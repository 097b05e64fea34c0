"""Every use of a TensorFlow interface that is not public, in one place."""

import keras
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import record
from tensorflow.python.framework import auto_control_deps_utils
from tensorflow.python.ops import resource_variable_ops


def variable_of(value):
    """The resource variable behind `value`, or None if there is none.

    Takes tf.Variable and Keras variables. In an autocast or stateless scope a
    Keras variable stands for a tensor, and None is returned.
    """
    value = value.value if isinstance(value, keras.Variable) else value
    return value if resource_variable_ops.is_resource_variable(value) else None


def tell_tape(variable):
    """Makes gradient tapes watch a variable that only its handle is used of."""
    resource_variable_ops.variable_accessed(variable)


def is_recording():
    """Whether a gradient may be asked for later, outside of graphs."""
    return record.could_possibly_record()


def declare_read_only(op_name):
    """Lets reads of one variable by this op run side by side in a function."""
    auto_control_deps_utils.register_read_only_resource_op(op_name)


def call_if_used(function, tensor):
    """`function(tensor)`, left out of a graph that has no use for the result.

    TensorFlow runs each op that reads a variable if anything takes its outputs,
    though nothing takes what comes of those. Here they are ops of a function,
    and a call of that, which must change no variable, is one op.
    """
    if tf.executing_eagerly():
        return function(tensor)
    inner = tf.function(function).get_concrete_function(tensor)
    arguments = [tensor, *inner.captured_inputs]
    (output,) = tf.raw_ops.PartitionedCall(
        args=arguments, Tout=[o.dtype for o in inner.outputs], f=inner
    )
    handles = [i for i, a in enumerate(arguments) if a.dtype == tf.resource]
    read_only = attr_value_pb2.AttrValue.ListValue(i=handles)
    output.op._set_attr(
        "_read_only_resource_inputs",
        attr_value_pb2.AttrValue(list=read_only),
    )
    return tf.ensure_shape(output, inner.outputs[0].shape)
