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
        labels = arguments.padded_integers(labels, padding=NONE)
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


def are_weights_of(sample_weight, labels):
    """Whether weights have a number for each label, not one for each input.

    Both are tensors, labels `[..., M]`. For an input, `[..., 1]` will do.
    """
    return sample_weight.shape.rank == labels.shape.rank and (
        sample_weight.shape[-1] != 1 or labels.shape[-1] == 1
    )


def of_same_rows(label_weights, labels):
    """Ragged weights, whose use is an error where the labels' rows are others.

    Padded, a row that is too short would only leave labels out.

    Raises:
      tf.errors.InvalidArgumentError: of eager tensors.
    """
    both = (label_weights, labels)
    if not all(isinstance(values, tf.RaggedTensor) for values in both):
        return label_weights
    asserted = tf.debugging.assert_equal(
        tf.cast(label_weights.row_splits, tf.int64),
        tf.cast(labels.row_splits, tf.int64),
        "sample_weight must have a number for each label: as many for each "
        "input as it has labels",
    )
    with tf.control_dependencies([] if asserted is None else [asserted]):
        flat = tf.identity(label_weights.flat_values)
    return label_weights.with_flat_values(flat)


def weights(label_weights, labels, dtype):
    """Weights as a tensor `[..., M]`, 0 where there is no label.

    Args:
      label_weights: of their shape, a tensor or ragged in its last dimension.
      labels: `[..., M]`, of `read`.
      dtype: of the result.

    Raises:
      tf.errors.InvalidArgumentError: they have another shape.
    """
    if isinstance(label_weights, tf.RaggedTensor):
        label_weights = label_weights.to_tensor()
    asserted = tf.debugging.assert_equal(
        tf.shape(label_weights),
        tf.shape(labels),
        "sample_weight must have a number for each label, or one for each "
        "input, but its shape is not that of labels",
    )
    with tf.control_dependencies([] if asserted is None else [asserted]):
        label_weights = tf.cast(label_weights, dtype)
    return tf.where(
        tf.not_equal(labels, NONE), label_weights, tf.zeros([], dtype)
    )
