"""Every use of a TensorFlow interface that is not public, in one place."""

import keras
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
