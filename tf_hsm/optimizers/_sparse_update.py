"""A rule's step on the rows that a gradient names, in one op."""

import functools
import math
from typing import NamedTuple

import tensorflow as tf

from tf_hsm.runtime import library, private_tensorflow
from tf_hsm.runtime.arguments import accumulator
from tf_hsm.runtime.library import raw_ops

_OP = "ResourceTfHsmSparseUpdate"
_DTYPES = library.allowed_values(_OP, "T")
# What a GPU sums of a row: kMaxUpdatedRowBytes of the op library.
_MOST_BYTES_ON_GPUS = 40 << 10


class Rule(NamedTuple):
    """A rule that the ops know, and its numbers.

    Attributes:
      name: of the rule in the ops.
      rate: the learning rate; Adam's includes the correction of the bias of its
        moments.
      beta_1: the momentum of RMSprop.
      beta_2: the rho of RMSprop.
      epsilon: a small number.
      decay: the learning rate times the weight decay; None: no weight decay.
    """

    name: str
    rate: tf.Tensor
    beta_1: float = 0.0
    beta_2: float = 0.0
    epsilon: float = 0.0
    decay: tf.Tensor | None = None

    def hyperparameters(self, decays):
        """Returns the numbers as the ops take them, float64.

        Args:
          decays: a list of booleans: which of the op's variables decay.

        Returns:
          `[4]`, or `[4 + len(decays)]` if the rule has a weight decay.
        """
        constants = self.beta_1, self.beta_2, self.epsilon
        numbers = [
            [tf.cast(self.rate, tf.float64)],
            tf.constant(constants, tf.float64),
        ]
        if self.decay is not None:
            decay = tf.cast(self.decay, tf.float64)
            numbers.append(decay * tf.constant(decays, tf.float64))
        return tf.concat(numbers, 0)


def is_possible(variable, slots):
    """Whether the op can update a variable and its slots.

    They must be on one device that has the op, and not within XLA. On a GPU, a
    row has at most 10,240 numbers, or 5,120 of float64.
    """
    device = tf.DeviceSpec.from_string(variable.device).device_type
    return (
        variable.dtype in _DTYPES
        and all(slot.device == variable.device for slot in slots)
        and device in _devices()
        and (device == "CPU" or _row_bytes(variable) <= _MOST_BYTES_ON_GPUS)
        and not private_tensorflow.is_in_xla()
    )


@functools.cache
def _devices():
    return private_tensorflow.kernel_devices(_OP)


def _row_bytes(variable):
    return math.prod(variable.shape[1:]) * accumulator(variable.dtype).size


def update(variable, slots, gradient, rule, decays, seed=None):
    """Updates the rows of a variable and of its slots in place.

    It sums the values of repeated rows in their order, and computes in float32
    at least. The bits do not depend on the number of threads. It holds the
    exclusive locks of all the variables meanwhile.

    Args:
      variable: a resource variable `[N, ...]`, see `is_possible`.
      slots: the resource variables of the rule.
      gradient: `tf.IndexedSlices` with values `[U, ...]`; rows may repeat.
      rule: a `Rule`.
      decays: whether the weight decay of the rule applies to the variable.
      seed: of stochastic rounding, a scalar int64; None to round to nearest.

    Returns:
      The operation; None in eager mode.

    Raises:
      tf.errors.InvalidArgumentError: shapes do not fit, or an index is outside
        [0, N); nothing is updated then. A GPU leaves such an index out.
    """
    return raw_ops.resource_tf_hsm_sparse_update(
        weights=variable.handle,
        slots=[slot.handle for slot in slots],
        indices=gradient.indices,
        values=tf.cast(gradient.values, accumulator(variable.dtype)),
        hyperparameters=rule.hyperparameters([decays]),
        seed=0 if seed is None else seed,
        T=variable.dtype,
        rule=rule.name,
        stochastic_rounding=seed is not None,
    )
