"""The losses of heads whose weights are in 8 or 4 bits."""

import numpy as np
import tensorflow as tf

from tf_hsm.ops.label_tree_ops import label_tree_log_prob
from tf_hsm.runtime import arguments
from tf_hsm.runtime.tree_tensors import tree_tensors
from tf_hsm.tree import Forest


def losses(head, batch):
    """Returns the loss of each label, which has no gradient.

    Args:
      head: a `TreeHead` on `QuantizedRows`.
      batch: the `Batch`.

    Raises:
      ValueError: the losses are to be trained by.
    """
    _check_no_training(batch)
    labels = arguments.integers(batch.labels)
    counted = arguments.counted(labels, batch.ignored)
    if counted is not None:
        labels = tf.where(counted, labels, tf.zeros_like(labels))
    found = -head.log_prob(
        labels[..., tf.newaxis], batch.inputs, nodes=batch.path.nodes
    )[..., 0]
    return found if counted is None else tf.where(counted, found, 0)


def groups_of(tree):
    """Returns a forest that has each group of a tree as a tree of its own.

    Each row is a class of the forest, with the number of the row.
    """
    return Forest(
        tree.group_offsets,
        np.full(tree.num_groups, -1),
        np.arange(tree.num_rows),
    )


def label_set_losses(head, groups, batch):
    """Returns the loss of each label set, which has no gradient.

    `label_tree_loss` has the formula. The op of log-probabilities reads the
    rows of the visited groups. No row is decoded into memory.

    Args:
      head: a `LabelTreeHead` on `QuantizedRows`.
      groups: `groups_of(head.tree)`.
      batch: the `Batch`, whose labels are `[..., M]`, negative for none.

    Raises:
      ValueError: the losses are to be trained by.
      tf.errors.InvalidArgumentError: a label is not below the number of labels.
    """
    _check_no_training(batch)
    shape = tf.shape(batch.labels)
    count = tf.reduce_prod(shape[:-1])
    labels = tf.reshape(batch.labels, [count, shape[-1]])
    inputs = tf.reshape(batch.inputs, [count, head.weights.width])
    rows, lengths, is_positive = _visited_rows(head.tree, labels, head.weights)
    z = _logits(head.weights, groups, rows, inputs)
    if head.biases is not None:
        z += tf.gather(tf.convert_to_tensor(head.biases), rows)
    each = tf.where(
        tf.sequence_mask(lengths, tf.shape(rows)[-1]),
        tf.math.softplus(tf.where(is_positive, -z, z)),
        0,
    )
    return tf.reshape(tf.reduce_sum(each, -1), shape[:-1])


def _check_no_training(batch):
    if batch.training or batch.step is not None:
        raise ValueError(
            "the head is quantized and cannot train: train the model before "
            "model.quantize"
        )


def _logits(weights, groups, rows, inputs):
    """Returns `weights[rows] . inputs`, `[B, C]` for inputs `[B, width]`.

    One call has the log-sigmoids of all logits and of their negatives, whose
    difference is the logit, however large the logit is.
    """
    both = label_tree_log_prob(
        weights,
        None,
        tf.concat([rows, rows], 0),
        tf.concat([inputs, -inputs], 0),
        groups,
    )
    positive, negative = tf.split(both, 2)
    return positive - negative


def _visited_rows(tree, labels, near):
    """Returns the rows of the groups that examples visit.

    Args:
      tree: the `Tree`.
      labels: `[B, M]`, negative for none.
      near: the weights, which say where the arrays of the tree are.

    Returns:
      Rows `[B, C]`, with a row of the root's group after the last one; their
      numbers `[B]`; and `[B, C]` bool, whether a label is at or below a row.
    """
    tensors = tree_tensors(tree, near)
    labels = tf.cast(labels, tf.int64)
    asserted = tf.debugging.assert_less(
        labels,
        tf.constant(tree.num_classes, tf.int64),
        "labels must be below the number of labels of the tree, which is "
        f"{tree.num_classes}",
    )
    places = tf.where(arguments.checked(labels, asserted) >= 0)
    examples = places[:, 0]
    rows = tf.gather(tensors.class_rows, tf.gather_nd(labels, places))
    count = tf.shape(labels, tf.int64)[0]
    # Pairs as numbers: of an example and a row, of an example and a group.
    positives, groups = [], [tf.range(count) * tree.num_groups]
    for _ in range(tree.depth):
        group = tf.gather(tensors.row_groups, rows)
        positives.append(examples * tree.num_rows + rows)
        groups.append(examples * tree.num_groups + group)
        rows = tf.gather(tensors.group_parents, group)
        is_inner = rows >= 0
        examples = tf.boolean_mask(examples, is_inner)
        rows = tf.boolean_mask(rows, is_inner)
    groups = tf.sort(tf.unique(tf.concat(groups, 0)).y)
    examples, groups = groups // tree.num_groups, groups % tree.num_groups
    spans = tf.ragged.range(
        tf.gather(tensors.group_offsets, groups),
        tf.gather(tensors.group_offsets, groups + 1),
    )
    found = tf.RaggedTensor.from_value_rowids(
        spans.flat_values,
        tf.repeat(examples, spans.row_lengths()),
        count,
        validate=False,
    )
    rows = found.to_tensor()
    pairs = tf.range(count)[:, tf.newaxis] * tree.num_rows + rows
    # The last number makes every search end at an element.
    positives = tf.sort(tf.concat([*positives, [tf.int64.max]], 0))
    at = tf.searchsorted(positives, tf.reshape(pairs, [-1]))
    is_positive = tf.reshape(tf.gather(positives, at), tf.shape(pairs)) == pairs
    return rows, found.row_lengths(), is_positive
