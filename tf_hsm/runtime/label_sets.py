"""Several labels for each input: `[..., M]`, in any order.

Negative numbers stand for no label, since inputs have different numbers of
them; a `tf.RaggedTensor` needs none.
"""

import tensorflow as tf

from tf_hsm.runtime import arguments

# What stands for no label.
NONE = -1


def read(labels, inputs, ignore_class=None, inputs_mask=None):
    """Returns labels as a tensor `[..., M]`, NONE where there is none.

    Args:
      labels: `[..., M]` integers, a tensor or ragged in its last dimension.
      inputs: `[..., width]`.
      ignore_class: another number that stands for no label; or None.
      inputs_mask: `[...]` bool, the inputs that have labels; or None.

    Raises:
      TypeError: labels are not integers.
      ValueError: labels and inputs do not fit.
    """
    if isinstance(labels, tf.RaggedTensor):
        labels = labels.to_tensor(default_value=NONE)
    labels = arguments.integers(labels)
    leading = labels.shape[:-1]
    if labels.shape.rank == 0 or not leading.is_compatible_with(
        inputs.shape[:-1]
    ):
        raise ValueError(
            f"labels, of shape {labels.shape}, must have the shape of inputs, "
            f"{inputs.shape}, but with the number of labels as its last "
            "dimension: each input has several labels here"
        )
    present = labels >= 0
    if ignore_class is not None:
        present &= tf.not_equal(labels, ignore_class)
    if inputs_mask is not None:
        present &= tf.cast(inputs_mask, tf.bool)[..., tf.newaxis]
    return tf.where(present, labels, tf.cast(NONE, labels.dtype))


def shares(labels, dtype):
    """The weight `[..., M]` of each label in the mean of its input's."""
    present = tf.cast(tf.not_equal(labels, NONE), dtype)
    count = tf.reduce_sum(present, -1, keepdims=True)
    return tf.math.divide_no_nan(present, count)
