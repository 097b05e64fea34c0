"""Adam whose step costs O(touched rows) for sparse gradients."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("language_model")
class LazyAdam(keras.optimizers.Adam):
    """Adam that leaves the rows without a gradient as they are.

    A batch touches a few thousand rows of the embedding and of the head.
    `keras.optimizers.Adam` decays and rewrites all of them at each step, and
    takes a row that is named twice in `IndexedSlices` for two rows. Here
    repeated rows are summed first, and moments and values change on the touched
    rows only; the moments of a row thus decay with its own steps. Dense
    gradients go Keras's way. Kingma and Ba, "Adam", 2015.
    """

    def update_step(self, gradient, variable, learning_rate):
        """Updates `variable [R, D]`, or the rows that `gradient` names."""
        if not isinstance(gradient, tf.IndexedSlices):
            super().update_step(gradient, variable, learning_rate)
            return
        rows, positions = tf.unique(gradient.indices)
        gradient = tf.math.unsorted_segment_sum(
            gradient.values, positions, tf.size(rows)
        )
        index = self._get_variable_index(variable)
        momentum, velocity = self._momentums[index], self._velocities[index]
        step = tf.cast(self.iterations.value + 1, gradient.dtype)
        rate = tf.cast(learning_rate, gradient.dtype)
        rate *= tf.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        m = tf.gather(momentum.value, rows)
        m += (gradient - m) * (1 - self.beta_1)
        v = tf.gather(velocity.value, rows)
        v += (tf.square(gradient) - v) * (1 - self.beta_2)
        change = rate * m / (tf.sqrt(v) + self.epsilon)
        self.assign(momentum, tf.IndexedSlices(m, rows))
        self.assign(velocity, tf.IndexedSlices(v, rows))
        self.assign_sub(variable, tf.IndexedSlices(change, rows))
