"""Adagrad that reads and writes touched rows only."""

import keras
import tensorflow as tf

from tf_hsm.optimizers._row_optimizer import RowOptimizer
from tf_hsm.optimizers._sparse_update import Rule


@keras.saving.register_keras_serializable("tf_hsm")
class Adagrad(RowOptimizer, keras.optimizers.Adagrad):
    """Adagrad whose step costs O(touched rows).

        accumulator += g^2
        w -= learning_rate * g / sqrt(accumulator + epsilon)

    A row without a gradient does not change in Adagrad anyway, so for
    `tf.IndexedSlices` too this computes what `keras.optimizers.Adagrad` does
    for their dense equivalent. Duchi, Hazan and Singer, "Adaptive subgradient
    methods for online learning and stochastic optimization", 2011.

    Keras' default for the first accumulator is 0.1. The gradient of a mean over
    a batch of 128 has squares of about 1e-8, so that no row moves for thousands
    of steps. The default here is 1e-6, which suits the mean of a batch, and the
    learning rate is 0.05. docs/fit.md compares both. If each example is a step
    of its own (`loss_weights=1.0`), begin at 0.1.

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

    def __init__(
        self,
        learning_rate=0.05,
        initial_accumulator_value=1e-6,
        epsilon=1e-7,
        **kwargs,
    ):
        super().__init__(
            learning_rate=learning_rate,
            initial_accumulator_value=initial_accumulator_value,
            epsilon=epsilon,
            **kwargs,
        )

    def _rule(self, rate):
        return Rule(self._rule_name, rate, epsilon=self.epsilon)

    def _step(self, gradient, slots, rate, is_sparse):
        del is_sparse
        accumulator = slots[0] + tf.square(gradient)
        change = rate * gradient / tf.sqrt(accumulator + self.epsilon)
        return [accumulator], change
