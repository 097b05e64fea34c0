"""Lion that reads and writes touched rows only."""

import keras
import tensorflow as tf

from tf_hsm.optimizers._row_optimizer import RowOptimizer
from tf_hsm.optimizers._sparse_update import Rule


@keras.saving.register_keras_serializable("tf_hsm")
class Lion(RowOptimizer, keras.optimizers.Lion):
    """Lion that leaves the rows without a gradient as they are.

        w -= learning_rate * sign(beta_1 * m + (1 - beta_1) * g)
        m += (g - m) * (1 - beta_2)

    A sparse gradient (`tf.IndexedSlices`) changes m and the weights of the
    touched rows and of no others: for the steps between, m of a row does not
    decay and does not move the row. `keras.optimizers.Lion` decays and moves
    all rows at every step. Both are equal where every row is touched, and for
    dense gradients. Chen et al., "Symbolic discovery of optimization
    algorithms", 2023.

    Every weight of a touched row moves by the learning rate, however small its
    gradient is. Begin at a third to a tenth of the rate of `LazyAdam`.

    `slots(variable)` is [m], of the variable's shape: half the state of
    `LazyAdam`. What else all optimizers of this package do: see
    `tf_hsm.optimizers`.

    Args:
      learning_rate: a float, a schedule, or a function that returns the rate.
      beta_1: the weight of m in the step.
      beta_2: the decay of m.
      **kwargs: as for `keras.optimizers.Lion`.
    """

    _rule_name = "lion"

    def _rule(self, rate):
        return Rule(self._rule_name, rate, self.beta_1, self.beta_2)

    def _step(self, gradient, slots, rate, is_sparse):
        del is_sparse
        # Keras rounds 1 - beta in float32 as this does.
        beta_1 = tf.constant(self.beta_1, gradient.dtype)
        beta_2 = tf.constant(self.beta_2, gradient.dtype)
        sign = tf.sign(slots[0] * beta_1 + gradient * (1 - beta_1))
        return [slots[0] * beta_2 + gradient * (1 - beta_2)], rate * sign
