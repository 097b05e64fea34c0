"""Labels and their weights, as users pass them to a layer."""

import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.runtime import arguments


def loss_dtype(head):
    """The type of the losses of a head."""
    return arguments.accumulator(arguments.dtype_of(head.variables()[0]))


def split_weights(sample_weight, labels):
    """Returns weights of inputs, or of several labels `[..., M]`, in a pair."""
    if sample_weight is None:
        return None, None
    if not isinstance(sample_weight, tf.RaggedTensor):
        sample_weight = tf.convert_to_tensor(sample_weight)
    if not isinstance(labels, tf.RaggedTensor):
        labels = arguments.dense("labels", labels)
    # For an input, a weight `[..., 1]` will do.
    are_of_labels = sample_weight.shape.rank == labels.shape.rank and (
        sample_weight.shape[-1] != 1 or labels.shape[-1] == 1
    )
    return (None, sample_weight) if are_of_labels else (sample_weight, None)


def as_label(name, value):
    """Returns a label that stands for no class, an int, or None.

    Raises:
      TypeError: the value is neither.
    """
    # A Python integer, which JSON can hold.
    return None if value is None else _checks.as_integer(name, value)


def pruned_label(label, pruned, is_row=False):
    """Returns the label of a pruned tree that continues a label, or None.

    Args:
      label: a class of the old tree, another integer, or None.
      pruned: a `PrunedTree`.
      is_row: whether the label is a row of the old tree.

    Returns:
      -1 for a class or a row that the pruned tree lacks.

    Raises:
      ValueError: the class is merged with other classes.
    """
    if label is None or label < 0:
        return label
    if is_row:
        found = np.flatnonzero(pruned.rows == label)
        return int(found[0]) if found.size else -1
    if label >= pruned.classes.size:
        return label
    found = int(pruned.classes[label])
    if found >= 0 and np.count_nonzero(pruned.classes == found) > 1:
        raise ValueError(
            f"ignore_class {label} would merge with other classes, whose "
            "labels would be ignored too; keep this class"
        )
    return found


def of_known_rank(labels, inputs):
    """Returns labels `[...]` of a function that was traced for two shapes.

    After calls with labels `[B]` and `[B, 1]`, TensorFlow traces for labels of
    any rank.

    Raises:
      tf.errors.InvalidArgumentError: labels and inputs do not fit.
    """
    shape, given = tf.shape(inputs)[:-1], tf.shape(labels)
    with_one = tf.concat([shape, [1]], 0)
    asserted = tf.debugging.Assert(
        _equal(given, shape) | _equal(given, with_one),
        [
            "labels must have the shape",
            shape,
            "or",
            with_one,
            "but have",
            given,
        ],
    )
    labels = tf.reshape(arguments.checked(labels, asserted), shape)
    return tf.ensure_shape(labels, inputs.shape[:-1])


def _equal(one, other):
    """Returns whether two shapes are equal, a scalar."""
    return tf.equal(tf.size(one), tf.size(other)) & tf.reduce_all(
        tf.equal(one[: tf.size(other)], other[: tf.size(one)])
    )
