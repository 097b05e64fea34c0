"""A flat softmax that trains on a sample of the classes."""

import dataclasses
import typing

import tensorflow as tf

from tf_hsm.heads.class_sampler import ClassSampler
from tf_hsm.heads.tree_head import TreeHead
from tf_hsm.runtime import arguments, private_tensorflow


@dataclasses.dataclass(frozen=True, eq=False)
class SampledHead(TreeHead):
    """A `TreeHead` on one group, whose losses may be sampled.

    Attributes:
      draws: the `ClassSampler`.
      seed: of the draws, an integer.
      counter: an int64 variable, how many draws were made.
    """

    draws: ClassSampler
    seed: int
    counter: typing.Any

    def losses(self, batch):
        """Returns the loss of each label over a sample, or over all classes."""
        if not batch.training:
            return super().losses(batch)
        dtype = arguments.dtype_of(self.weights)
        inputs = arguments.floats(batch.inputs, dtype)
        width = self.weights.shape[1]
        labels = batch.labels
        inputs = arguments.flat_inputs(
            inputs, width, tf.shape(labels), "labels"
        )
        flat = tf.reshape(tf.cast(labels, tf.int64), [-1])
        counted = arguments.counted(flat, batch.ignored)
        kept = tf.where(
            arguments.in_range(flat, self.num_classes, "labels", counted)
        )
        losses = self._sampled_losses(
            tf.gather_nd(flat, kept),
            tf.gather_nd(inputs, kept),
            arguments.accumulator(dtype),
            batch.penalties,
        )
        losses = tf.scatter_nd(kept, losses, tf.shape(flat, tf.int64))
        return tf.reshape(losses, tf.shape(labels))

    def _sampled_losses(self, labels, inputs, dtype, penalties):
        """The losses `[B]` of labels `[B]` for inputs `[B, width]`."""
        counter = arguments.parameter(self.counter)
        sampled = self.draws.draw(self.seed, counter, self.weights)
        # Where the gradient computes the losses again, it has the same draw.
        if not private_tensorflow.will_recompute():
            self.counter.assign_add(1)
        inputs = tf.cast(inputs, dtype)
        classes = tf.concat([labels, sampled], 0)
        # Optimizers want each row of a gradient once, in order.
        rows = tf.sort(tf.unique(classes).y)
        places, batch = tf.searchsorted(rows, classes), tf.size(labels)
        of_labels, of_sampled = places[:batch], places[batch:]
        weights = tf.gather(arguments.parameter(self.weights), rows)
        biases = None
        if self.biases is not None:
            biases = tf.gather(arguments.parameter(self.biases), rows)
        if penalties is not None:
            penalties.of_rows(weights, biases)
        offsets = -tf.math.log(self.draws.expected(rows, self.weights))
        offsets = tf.cast(offsets, dtype)
        if biases is not None:
            offsets += tf.cast(biases, dtype)
        weights = tf.cast(weights, dtype)
        label_logits = tf.reduce_sum(
            inputs * tf.gather(weights, of_labels), -1
        ) + tf.gather(offsets, of_labels)
        logits = tf.matmul(
            inputs, tf.gather(weights, of_sampled), transpose_b=True
        ) + tf.gather(offsets, of_sampled)
        # A label that is drawn by chance is no other class.
        is_label = labels[:, tf.newaxis] == sampled
        logits = tf.where(is_label, tf.constant(dtype.min, dtype), logits)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.zeros_like(labels),
            logits=tf.concat([label_logits[:, tf.newaxis], logits], 1),
        )
