"""Adam that reads and writes touched rows only."""

import keras
import tensorflow as tf

from tf_hsm.optimizers._row_optimizer import RowOptimizer
from tf_hsm.optimizers._sparse_update import Rule


@keras.saving.register_keras_serializable("tf_hsm")
class LazyAdam(RowOptimizer, keras.optimizers.Adam):
    """Adam that leaves the rows without a gradient as they are.

        m += (g - m) * (1 - beta_1)
        v += (g^2 - v) * (1 - beta_2)
        rate = learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t)
        w -= rate * m / (sqrt(v) + epsilon)

    t counts the steps of the optimizer. A dense gradient makes the step of
    `keras.optimizers.Adam`. A sparse gradient (`tf.IndexedSlices`) changes the
    moments and the weights of the touched rows and of no others, with
    `sparse_beta_1` in place of `beta_1`. So the moments of a row decay with the
    row's own steps; `keras.optimizers.Adam` decays the moments of all rows, and
    moves all rows, at every step. Kingma and Ba, "Adam: a method for stochastic
    optimization", 2015.

    By default `sparse_beta_1` is 0, because momentum harms a row that few
    batches touch. The dense Adam moves a weight by (1 - beta_1) of a
    gradient at once and by the rest over the next steps, so that the whole
    gradient has acted some 20 steps later. A lazy step only moves the row when
    the row is touched again: after n touches, beta_1^n of the first gradient
    has still not acted, and for most classes of a large vocabulary n is small.
    Without momentum the whole gradient acts at once. docs/fit.md has figures.

    With `weight_decay` the optimizer is AdamW on the touched rows: a row first
    loses `learning_rate * weight_decay` of itself, whatever its moments are.
    `keras.optimizers.AdamW` decays all rows at every step. A row that few
    batches touch thus decays little, as its gradients are few. Loshchilov and
    Hutter, "Decoupled weight decay regularization", 2019.

    `slots(variable)` is [m, v], of the variable's shape; with `amsgrad`
    [m, v, the largest v so far]. What else all optimizers of this package do:
    see `tf_hsm.optimizers`.

    Args:
      learning_rate: a float, a schedule, or a function that returns the rate.
      beta_1: the decay of m for dense gradients.
      beta_2: the decay of v.
      epsilon: a small number, outside the root.
      amsgrad: whether to divide by the root of the largest v so far. Reddi,
        Kale and Kumar, "On the convergence of Adam and beyond", 2018.
      sparse_beta_1: the decay of m for sparse gradients and for layers that
        update their rows in place, at least 0 and below 1.
      **kwargs: as for `keras.optimizers.Adam`, for example `weight_decay`.

    Raises:
      ValueError: `sparse_beta_1` is out of its range.
    """

    _rule_name = "adam"
    _not_in_place = ("amsgrad",)

    def __init__(
        self,
        learning_rate=0.001,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-7,
        amsgrad=False,
        sparse_beta_1=0.0,
        **kwargs,
    ):
        if not 0 <= sparse_beta_1 < 1:
            raise ValueError(
                f"sparse_beta_1 is {sparse_beta_1}; it must be at least 0 and "
                "below 1"
            )
        super().__init__(
            learning_rate=learning_rate,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            amsgrad=amsgrad,
            **kwargs,
        )
        self.sparse_beta_1 = sparse_beta_1

    def _rule(self, rate):
        if self.amsgrad:
            return None
        return Rule(
            self._rule_name,
            self._corrected(rate, self.sparse_beta_1),
            self.sparse_beta_1,
            self.beta_2,
            self.epsilon,
        )

    def _corrected(self, rate, beta_1):
        """The rate for moments that started from zero."""
        step = tf.cast(self.iterations + 1, rate.dtype)
        return rate * tf.sqrt(1 - self.beta_2**step) / (1 - beta_1**step)

    def _step(self, gradient, slots, rate, is_sparse):
        beta_1 = self.sparse_beta_1 if is_sparse else self.beta_1
        rate = self._corrected(rate, beta_1)
        m, v = slots[:2]
        m += (gradient - m) * (1 - beta_1)
        v += (tf.square(gradient) - v) * (1 - self.beta_2)
        slots = [m, v, tf.maximum(slots[2], v)] if self.amsgrad else [m, v]
        return slots, m * rate / (tf.sqrt(slots[-1]) + self.epsilon)

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "sparse_beta_1": self.sparse_beta_1}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes the optimizer that `get_config` described.

        A whole config without `sparse_beta_1` stems from a version that had
        `beta_1` for all gradients.
        """
        if "beta_1" in config and "sparse_beta_1" not in config:
            config = {**config, "sparse_beta_1": config["beta_1"]}
        return super().from_config(config, custom_objects)
