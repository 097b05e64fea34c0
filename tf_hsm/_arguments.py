"""What users pass to a function, as the ops take it."""

import tensorflow as tf

from tf_hsm import _private_tensorflow


def parameter(value, dtype=None):
    """A variable, or a tensor, for which lists take the type `dtype`."""
    variable = _private_tensorflow.variable_of(value)
    if variable is not None:
        return variable
    return tf.convert_to_tensor(
        value, None if hasattr(value, "dtype") else dtype
    )


def dtype_of(parameter):
    """The `tf.DType` of a variable or a tensor."""
    return tf.as_dtype(parameter.dtype).base_dtype


def accumulator(dtype):
    """The type in which products of `dtype` are summed."""
    return tf.float64 if dtype == tf.float64 else tf.float32


def integers(labels):
    """Labels as int32 or int64.

    Raises:
      TypeError: they are not integers.
    """
    labels = tf.convert_to_tensor(labels)
    if labels.dtype in (tf.int32, tf.int64):
        return labels
    if not labels.dtype.is_integer:
        raise TypeError(f"labels must be integers, but are {labels.dtype.name}")
    return tf.cast(labels, tf.int64)


def floats(inputs, dtype):
    """Lists and NumPy arrays of Python floats take the weights' type."""
    if not tf.is_tensor(inputs) and not hasattr(inputs, "dtype"):
        return tf.convert_to_tensor(inputs, dtype)
    inputs = tf.convert_to_tensor(inputs)
    return inputs if inputs.dtype.is_floating else tf.cast(inputs, dtype)
