"""The full softmax of stock TensorFlow, which other heads are compared with.

It is an endpoint layer like `tf_hsm.layers.HierarchicalSoftmax`:
`layer(inputs [..., D], labels [...])` returns the loss `[...]` in nats and adds
its mean to the model's losses; `log_probs`, `top_k` and `sample` answer the
same questions.
"""

import keras
import numpy as np
import tensorflow as tf

import tf_hsm


@keras.saving.register_keras_serializable("language_model")
class FullSoftmax(keras.layers.Layer):
    """One softmax over all N classes: O(N D) per token."""

    def __init__(self, num_classes, counts=None, **kwargs):
        """Makes a head of N classes, whose biases begin as `counts [N]` say."""
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self._counts = counts
        # A tree of one group is the full softmax.
        self._one_group = tf_hsm.Tree.balanced(num_classes, [num_classes])

    def build(self, inputs_shape, labels_shape=None):
        """Makes `kernel [N, D]` and `bias [N]`."""
        self.kernel = self.add_weight(
            shape=(self.num_classes, inputs_shape[-1]), name="kernel"
        )
        prior = np.zeros(self.num_classes)
        if self._counts is not None:
            prior = self._one_group.log_prior(self._counts)
        self.bias = self.add_weight(
            shape=(self.num_classes,),
            initializer=lambda shape, dtype: tf.cast(prior, dtype),
            name="bias",
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

    def log_probs(self, inputs):
        """Log-probabilities `[..., N]` of all classes, in nats."""
        return tf_hsm.hierarchical_softmax_log_probs(
            self.kernel, self.bias, inputs, self._one_group
        )

    def top_k(self, inputs, k, **options):
        """The k best classes: `(log_probs, classes)`, each `[..., k]`.

        See `tf_hsm.hierarchical_softmax_top_k` for the options.
        """
        return tf_hsm.hierarchical_softmax_top_k(
            self.kernel, self.bias, inputs, self._one_group, k, **options
        )

    def sample(self, inputs, num_samples, **options):
        """Classes `[..., num_samples]` drawn by their probabilities.

        See `tf_hsm.hierarchical_softmax_sample` for the options.
        """
        return tf_hsm.hierarchical_softmax_sample(
            self.kernel,
            self.bias,
            inputs,
            self._one_group,
            num_samples,
            **options,
        )

    def compute_output_spec(self, inputs, labels):
        """One loss per label."""
        return keras.KerasTensor(labels.shape, dtype=inputs.dtype)

    def get_config(self):
        """The arguments of the constructor."""
        return {**super().get_config(), "num_classes": self.num_classes}
