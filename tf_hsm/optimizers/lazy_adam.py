"""Adam that reads and writes touched rows only."""

import keras
import tensorflow as tf

from tf_hsm.optimizers._row_optimizer import RowOptimizer
from tf_hsm.optimizers._sparse_update import Rule
from tf_hsm.runtime import private_optimizer


@keras.saving.register_keras_serializable("tf_hsm")
class LazyAdam(RowOptimizer, keras.optimizers.Adam):
    """Adam that leaves the rows without a gradient as they are.

        m += (g - m) * (1 - beta_1)
        v += (g^2 - v) * (1 - beta_2)
        rate = learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t)
        w -= rate * m / (sqrt(v) + epsilon)

    t counts the steps of the optimizer. For `tf.IndexedSlices` the moments and
    weights of the touched rows change and no others, so that the moments of a
    row decay with its own steps; `keras.optimizers.Adam` decays the moments of
    all rows, and moves all rows, at every step. Equal to that where every row
    is touched, and for dense gradients. Kingma and Ba, "Adam: a method for
    stochastic optimization", 2015.

    `slots(variable)` is [m, v], of the variable's shape; with `amsgrad`
    [m, v, the largest v so far]. What else all optimizers of this package do:
    see `tf_hsm.optimizers`.

    Args:
      learning_rate: a float, a schedule, or a function that returns the rate.
      beta_1: the decay of m.
      beta_2: the decay of v.
      epsilon: a small number, outside the root.
      amsgrad: whether to divide by the root of the largest v so far. Reddi,
        Kale and Kumar, "On the convergence of Adam and beyond", 2018.
      **kwargs: as for `keras.optimizers.Adam`.
    """

    _rule_name = "adam"

    def _slot_lists(self):
        return private_optimizer.adam_slots(self)

    def _rule(self, rate):
        if self.amsgrad:
            return None
        return Rule(
            self._rule_name,
            self._corrected(rate),
            self.beta_1,
            self.beta_2,
            self.epsilon,
        )

    def _corrected(self, rate):
        """The rate for moments that started from zero."""
        step = tf.cast(self.iterations + 1, rate.dtype)
        return rate * tf.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)

    def _step(self, gradient, slots, rate):
        rate = self._corrected(rate)
        m, v = slots[:2]
        m += (gradient - m) * (1 - self.beta_1)
        v += (tf.square(gradient) - v) * (1 - self.beta_2)
        slots = [m, v, tf.maximum(slots[2], v)] if self.amsgrad else [m, v]
        return slots, m * rate / (tf.sqrt(slots[-1]) + self.epsilon)
