"""RMSprop that reads and writes touched rows only."""

import keras
import tensorflow as tf

from tf_hsm.optimizers._row_optimizer import RowOptimizer
from tf_hsm.optimizers._sparse_update import Rule


@keras.saving.register_keras_serializable("tf_hsm")
class RMSprop(RowOptimizer, keras.optimizers.RMSprop):
    """RMSprop that leaves the rows without a gradient as they are.

        v += (g^2 - v) * (1 - rho)
        w -= learning_rate * g / sqrt(v + epsilon)

    With `centered`, v is the mean square and a the mean, and the root is of the
    variance:

        a += (g - a) * (1 - rho)
        w -= learning_rate * g / sqrt(v - a^2 + epsilon)

    With `momentum`, m moves the weights instead of that change:

        m = momentum * m + change
        w -= m

    A sparse gradient (`tf.IndexedSlices`) changes the slots and the weights of
    the touched rows and of no others: for the steps between, v, a and m of a
    row do not decay, and m does not move the row. `keras.optimizers.RMSprop`
    decays and moves all rows at every step. Both are equal where every row is
    touched, and for dense gradients; but a variance that rounding makes
    negative counts as 0 here and gives NaN in Keras.

    A row starts from v = 0, so that the first step of a row is 1 / sqrt(1 -
    rho) times the learning rate for each weight: 3.2 times by default.
    `momentum` harms a row that few batches touch, see `LazyAdam`.

    Tieleman and Hinton, "Lecture 6.5 - RMSProp", Coursera: Neural Networks for
    Machine Learning, 2012; Graves, "Generating sequences with recurrent neural
    networks", 2013, for `centered`.

    `slots(variable)` is [v], of the variable's shape; then m with `momentum`,
    and then a with `centered`. What else all optimizers of this package do: see
    `tf_hsm.optimizers`.

    Args:
      learning_rate: a float, a schedule, or a function that returns the rate.
      rho: the decay of v and a. 0.99 suits the rows of a head better than the
        default of Keras; docs/fit.md has figures.
      momentum: the decay of m; 0: no momentum.
      epsilon: a small number, inside the root.
      centered: whether to divide by the root of the variance.
      **kwargs: as for `keras.optimizers.RMSprop`.
    """

    _rule_name = "rmsprop"

    def _rule(self, rate):
        name = self._rule_name
        name += "_centered" if self.centered else ""
        name += "_momentum" if self.momentum > 0 else ""
        return Rule(name, rate, self.momentum, self.rho, self.epsilon)

    def _step(self, gradient, slots, rate, is_sparse):
        del is_sparse
        square = self._averaged(slots[0], tf.square(gradient))
        slots = [square, *slots[1:]]
        if self.centered:
            slots[-1] = self._averaged(slots[-1], gradient)
            square -= tf.square(slots[-1])
            square = tf.where(square < 0, tf.zeros_like(square), square)
        change = rate * gradient / tf.sqrt(square + self.epsilon)
        if self.momentum > 0:
            change = slots[1] = slots[1] * self.momentum + change
        return slots, change

    def _averaged(self, average, value):
        return self.rho * average + (1 - self.rho) * value
