"""Several labels for each input: `[..., M]`, in any order.

Negative numbers stand for no label, since inputs have different numbers of
them; a `tf.RaggedTensor` needs none.
"""

import tensorflow as tf

from tf_hsm.runtime import arguments

# What stands for no label.
NONE = -1


def read(labels, inputs, ignore_class=None, inputs_mask=None, counts=()):
    """Returns labels as a tensor `[..., M]`, NONE where there is none.

    Args:
      labels: `[..., M]` integers, a tensor or ragged in its last dimension.
      inputs: `[..., width]`.
      ignore_class: another number that stands for no label; or None.
      inputs_mask: `[...]` bool, the inputs that have labels; or None.
      counts: see `not_multi_hot`.

    Raises:
      tf.errors.InvalidArgumentError: labels are a multi-hot matrix.
      TypeError: labels are not integers.
      ValueError: labels and inputs do not fit.
    """
    if isinstance(labels, tf.RaggedTensor):
        labels = arguments.padded_integers(labels, padding=NONE)
    labels = arguments.integers(labels)
    if labels.shape.rank is None:
        # A function that was traced for labels of two ranks.
        labels = tf.ensure_shape(labels, [*inputs.shape[:-1], None])
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
    labels = not_multi_hot(
        labels,
        counts,
        "labels",
        "tf_hsm.label_lists(labels) makes lists of a matrix",
        present,
    )
    if inputs_mask is not None:
        present &= tf.cast(inputs_mask, tf.bool)[..., tf.newaxis]
    return tf.where(present, labels, tf.cast(NONE, labels.dtype))


def not_multi_hot(values, counts, name, instead, present=True):
    """Returns lists of classes, whose use is an error if they are multi-hot.

    A matrix `[..., N]` of 0 and 1, as scikit-learn's MultiLabelBinarizer makes
    it, would read as lists of the classes 0 and 1. Lists of N numbers that are
    all 0 or 1 name a class twice. An array of another last dimension costs
    nothing where its shape is known.

    Args:
      values: `[..., M]` integers.
      counts: how many classes there are, a list of numbers N: one for the
        classes and, where labels are rows of a tree, one for the rows.
      name: of the argument.
      instead: what the user can do, for the error.
      present: `[..., M]` bool, the values that stand for a class; or True.

    Raises:
      tf.errors.InvalidArgumentError: they are multi-hot.
    """
    size = values.shape[-1]
    if not counts or (size is not None and size not in counts):
        return values
    is_one = tf.equal(values, 1)
    is_hot = tf.reduce_all(is_one | tf.equal(values, 0))
    size = tf.shape(values)[-1]
    is_hot &= tf.reduce_any([tf.equal(size, count) for count in counts])
    ones, zeros = (
        tf.reduce_sum(tf.cast(which & present, tf.int32), -1)
        for which in (is_one, ~is_one)
    )
    is_hot &= tf.reduce_any((ones > 1) | (zeros > 1))
    asserted = tf.debugging.Assert(
        ~is_hot,
        [
            f"{name} must be lists of classes, but are a multi-hot matrix: as "
            "many numbers for each input as there are classes, and all are 0 "
            f"or 1; {instead}. The shape is",
            tf.shape(values),
        ],
    )
    return arguments.checked(values, asserted)


def shares(labels, dtype):
    """The weight `[..., M]` of each label in the mean of its input's."""
    present = tf.cast(tf.not_equal(labels, NONE), dtype)
    count = tf.reduce_sum(present, -1, keepdims=True)
    return tf.math.divide_no_nan(present, count)


def repeated(inputs, labels):
    """Returns the input of each of several labels `[..., M]`.

    Args:
      inputs: `[..., width]`.
      labels: the labels.

    Returns:
      `[..., M, width]`.
    """
    shape = tf.concat([tf.shape(labels), tf.shape(inputs)[-1:]], 0)
    return tf.broadcast_to(inputs[..., tf.newaxis, :], shape)


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
    flat = arguments.checked(label_weights.flat_values, asserted)
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
    label_weights = arguments.checked(tf.cast(label_weights, dtype), asserted)
    return tf.where(
        tf.not_equal(labels, NONE), label_weights, tf.zeros([], dtype)
    )
