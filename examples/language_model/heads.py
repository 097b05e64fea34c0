"""The full softmax of stock TensorFlow, which other heads are compared with."""

import keras
import tensorflow as tf

import tf_hsm


@keras.saving.register_keras_serializable("language_model")
class FullSoftmax(tf_hsm.layers.HierarchicalSoftmax):
    """One softmax over all N classes: O(N D) per token, and the logits stored.

    The tree is `Tree.flat(N)`. Only the loss is another: `log_probs`, `top_k`
    and `sample` of the layer answer as they do for any tree.
    """

    def call(self, inputs, labels):
        """Returns the loss `[...]` and adds its mean to the model's."""
        logits = tf.matmul(inputs, self.kernel.value, transpose_b=True)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits + self.bias.value
        )
        self.add_loss(tf.reduce_mean(loss))
        return loss

    def compute_output_spec(self, inputs, labels):
        """One loss per label."""
        return keras.KerasTensor(labels.shape, dtype=inputs.dtype)
