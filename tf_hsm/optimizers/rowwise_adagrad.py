"""Adagrad with one accumulator per row."""

import keras
import tensorflow as tf

from tf_hsm.optimizers.adagrad import Adagrad


@keras.saving.register_keras_serializable("tf_hsm")
class RowwiseAdagrad(Adagrad):
    """Adagrad that keeps one number of state per row, not one per weight.

        accumulator[row] += mean over the row of g^2
        w[row] -= learning_rate * g / sqrt(accumulator[row] + epsilon)

    For a matrix `[N, D]` the state is D times smaller than Adagrad's. A row is
    what one index of the first axis selects, whether the gradient is sparse or
    dense; in a variable of one dimension or none it is one number, and the rule
    is Adagrad's. Mudigere et al., "Software-hardware co-design for fast and
    scalable training of deep learning recommendation models", 2022.

    `slots(variable)` is [accumulator], `[N]` for a variable `[N, ...]`. What
    else all optimizers of this package do: see `tf_hsm.optimizers`.

    Args:
      learning_rate: a float, a schedule, or a function that returns the rate.
      initial_accumulator_value: the first value of the accumulators; see
        `Adagrad`.
      epsilon: a small number, inside the root.
      **kwargs: as for `keras.optimizers.Adagrad`.
    """

    _rule_name = "rowwise_adagrad"

    def _slot_shape(self, shape):
        return shape[:1]

    def _step(self, gradient, slots, rate, is_sparse):
        del is_sparse
        axes = list(range(1, gradient.shape.rank))
        accumulator = slots[0] + tf.reduce_mean(tf.square(gradient), axes)
        root = tf.sqrt(accumulator + self.epsilon)
        for axis in axes:
            root = tf.expand_dims(root, axis)
        return [accumulator], rate * gradient / root
