"""Gradient descent, with momentum, that changes touched rows only."""

import keras

from tf_hsm.optimizers._row_optimizer import RowOptimizer
from tf_hsm.optimizers._sparse_update import Rule


@keras.saving.register_keras_serializable("tf_hsm")
class SGD(RowOptimizer, keras.optimizers.SGD):
    """Gradient descent that leaves the rows without a gradient as they are.

        velocity = momentum * velocity - learning_rate * g
        w += velocity

    or, with `nesterov`, `w += momentum * velocity - learning_rate * g`. For
    `tf.IndexedSlices` the velocity and weights of the touched rows change and
    no others, so that the velocity of a row decays with its own steps;
    `keras.optimizers.SGD` moves all rows on at every step. Equal to that where
    every row is touched, and for dense gradients. Polyak, "Some methods of
    speeding up the convergence of iteration methods", 1964; Sutskever et al.,
    "On the importance of initialization and momentum in deep learning", 2013.

    `slots(variable)` is [velocity], of the variable's shape; [] without
    momentum. What else all optimizers of this package do: see
    `tf_hsm.optimizers`.

    Args:
      learning_rate: a float, a schedule, or a function that returns the rate.
      momentum: a float in [0, 1].
      nesterov: whether to look ahead, see above.
      **kwargs: as for `keras.optimizers.SGD`.
    """

    _rule_name = "sgd"
    _not_in_place = ("momentum",)

    def _rule(self, rate):
        return None if self.momentum else Rule(self._rule_name, rate)

    def _step(self, gradient, slots, rate, is_sparse):
        del is_sparse
        step = gradient * rate
        if not slots:
            return [], step
        velocity = slots[0] * self.momentum - step
        if self.nesterov:
            return [velocity], step - velocity * self.momentum
        return [velocity], -velocity
