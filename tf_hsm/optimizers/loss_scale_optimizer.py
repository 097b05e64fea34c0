"""Dynamic loss scaling that looks at touched rows only."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("tf_hsm")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Scales the loss for float16 as Keras does, at O(touched rows) a step.

    Keras' looks for infinities in a tensor of each whole variable. Under the
    policy "mixed_float16" `model.compile` wraps an optimizer into Keras', so
    wrap it into this one before:

    >>> adagrad = tf_hsm.optimizers.Adagrad(0.1)
    >>> model.compile(tf_hsm.optimizers.LossScaleOptimizer(adagrad), ...)

    Micikevicius et al., "Mixed precision training", 2018.

    Args:
      inner_optimizer: what updates the variables.
      **kwargs: as for `keras.optimizers.LossScaleOptimizer`.
    """

    def check_finite(self, grads):
        """Whether all gradients, tensors or `tf.IndexedSlices`, are finite."""
        return super().check_finite(
            [g.values if isinstance(g, tf.IndexedSlices) else g for g in grads]
        )
