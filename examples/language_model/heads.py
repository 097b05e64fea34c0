"""The heads that the hierarchical softmax is compared with.

Each is an endpoint layer like `tf_hsm.layers.HierarchicalSoftmax`:
`layer(inputs [..., D], labels [...])` returns the loss `[...]` in nats and adds
its mean to the model's losses.
"""

import keras
import numpy as np
import tensorflow as tf


@keras.saving.register_keras_serializable("language_model")
class FullSoftmax(keras.layers.Layer):
    """One softmax over all N classes: O(N D) per token."""

    def __init__(self, num_classes, **kwargs):
        """Makes a head of `num_classes` (N) classes."""
        super().__init__(**kwargs)
        self.num_classes = num_classes

    def build(self, inputs_shape, labels_shape=None):
        """Makes `kernel [N, D]` and `bias [N]`."""
        self.kernel = self.add_weight(
            shape=(self.num_classes, inputs_shape[-1]), name="kernel"
        )
        self.bias = self.add_weight(
            shape=(self.num_classes,), initializer="zeros", name="bias"
        )

    def call(self, inputs, labels):
        """Returns the loss `[...]` and adds its mean to the model's."""
        loss = self.exact_loss(inputs, labels)
        self.add_loss(tf.reduce_mean(loss))
        return loss

    def exact_loss(self, inputs, labels):
        """-log p(label | input) in nats."""
        logits = tf.matmul(inputs, self.kernel.value, transpose_b=True)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits + self.bias.value
        )

    def compute_output_spec(self, inputs, labels):
        """One loss per label."""
        return keras.KerasTensor(labels.shape, dtype=inputs.dtype)

    def get_config(self):
        """The arguments of the constructor."""
        return {**super().get_config(), "num_classes": self.num_classes}


@keras.saving.register_keras_serializable("language_model")
class SampledSoftmax(FullSoftmax):
    """Trains on a few sampled classes, evaluates with the full softmax.

    Classes are drawn log-uniformly, which suits ids in order of falling
    frequency. Jean et al., "On Using Very Large Target Vocabulary for Neural
    Machine Translation", 2015.
    """

    def __init__(self, num_classes, num_sampled, seed=0, **kwargs):
        """Makes a head that draws `num_sampled` classes per step."""
        super().__init__(num_classes, **kwargs)
        self.num_sampled = num_sampled
        self.seed = seed

    def call(self, inputs, labels, training=False):
        """Returns the sampled loss `[...]` in training, else the exact one."""
        if not training:
            return super().call(inputs, labels)
        loss = tf.nn.sampled_softmax_loss(
            weights=self.kernel.value,
            biases=self.bias.value,
            labels=tf.reshape(labels, [-1, 1]),
            inputs=tf.reshape(inputs, [-1, inputs.shape[-1]]),
            num_sampled=min(self.num_sampled, self.num_classes),
            num_classes=self.num_classes,
            seed=self.seed,
        )
        self.add_loss(tf.reduce_mean(loss))
        return tf.reshape(loss, tf.shape(labels))

    def compute_output_spec(self, inputs, labels, training=False):
        """One loss per label."""
        return super().compute_output_spec(inputs, labels)

    def get_config(self):
        """The arguments of the constructor."""
        return {
            **super().get_config(),
            "num_sampled": self.num_sampled,
            "seed": self.seed,
        }


def log_probs(head, inputs):
    """Log probabilities `[M, N]` of all classes, in NumPy, for a few inputs.

    Args:
        head: a trained head of any kind.
        inputs: `[M, D]`.
    """
    logits = inputs @ np.array(head.kernel).T + np.array(head.bias)
    if isinstance(head, FullSoftmax):
        return _log_softmax(logits, np.array([0]))
    tree = head.tree
    rows = _log_softmax(logits, tree.group_offsets[:-1])
    # Breadth-first rows: the groups of one level are one slice, and their
    # parents are finished before them.
    for level in range(1, tree.depth):
        groups = np.flatnonzero(tree.group_depths == level)
        begin = tree.group_offsets[groups[0]]
        end = tree.group_offsets[groups[-1] + 1]
        parents = tree.group_parents[tree.row_groups[begin:end]]
        rows[:, begin:end] += rows[:, parents]
    return rows[:, tree.class_rows]


def _log_softmax(logits, starts):
    """Log softmax `[M, R]` within each run of columns between the starts."""
    sizes = np.diff(np.append(starts, logits.shape[1]))
    shifted = logits - np.repeat(
        np.maximum.reduceat(logits, starts, axis=1), sizes, axis=1
    )
    sums = np.add.reduceat(np.exp(shifted), starts, axis=1)
    return shifted - np.repeat(np.log(sums), sizes, axis=1)
