"""Adagrad that reads and writes touched rows only."""

import keras
import tensorflow as tf

from tf_hsm.optimizers._row_optimizer import RowOptimizer
from tf_hsm.optimizers._sparse_update import Rule
from tf_hsm.runtime import private_optimizer


@keras.saving.register_keras_serializable("tf_hsm")
class Adagrad(RowOptimizer, keras.optimizers.Adagrad):
    """Adagrad whose step costs O(touched rows).

        accumulator += g^2
        w -= learning_rate * g / sqrt(accumulator + epsilon)

    A row without a gradient does not change in Adagrad anyway, so for
    `tf.IndexedSlices` too this computes what `keras.optimizers.Adagrad` does
    for their dense equivalent. Duchi, Hazan and Singer, "Adaptive subgradient
    methods for online learning and stochastic optimization", 2011.

    `slots(variable)` is [accumulator], of the variable's shape. What else all
    optimizers of this package do: see `tf_hsm.optimizers`.

    Args:
      learning_rate: a float, a schedule, or a function that returns the rate.
      initial_accumulator_value: what accumulators start from.
      epsilon: a small number, inside the root.
      **kwargs: as for `keras.optimizers.Adagrad`.
    """

    # TensorFlow's sparse-apply op has epsilon outside the root.
    _rule_name = "adagrad"

    def _slot_lists(self):
        return private_optimizer.adagrad_slots(self)

    def _rule(self, rate):
        return Rule(self._rule_name, rate, epsilon=self.epsilon)

    def _step(self, gradient, slots, rate, is_sparse):
        del is_sparse
        accumulator = slots[0] + tf.square(gradient)
        change = rate * gradient / tf.sqrt(accumulator + self.epsilon)
        return [accumulator], change
