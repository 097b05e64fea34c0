"""A rule's step on the rows that a gradient names, in one op."""

from typing import NamedTuple

import tensorflow as tf

from tf_hsm.optimizers._unique_slices import wide_dtype
from tf_hsm.runtime import private_tensorflow
from tf_hsm.runtime.library import raw_ops

_DTYPES = private_tensorflow.allowed_values("ResourceTfHsmSparseUpdate", "T")


class Rule(NamedTuple):
    """A rule that the ops know, and its numbers.

    Adam's rate includes the correction of the bias of its moments.
    """

    name: str
    rate: tf.Tensor
    beta_1: float = 0.0
    beta_2: float = 0.0
    epsilon: float = 0.0

    @property
    def hyperparameters(self):
        """The numbers as the ops take them, `[4]` float64."""
        rate = tf.cast(self.rate, tf.float64)
        return tf.concat([[rate], tf.constant(self[2:], tf.float64)], 0)


def is_possible(variable, slots):
    """Whether the op can update a variable and its slots.

    They must be on one device, a CPU, and not within XLA.
    """
    return (
        variable.dtype in _DTYPES
        and all(slot.device == variable.device for slot in slots)
        and tf.DeviceSpec.from_string(variable.device).device_type == "CPU"
        and not private_tensorflow.is_in_xla()
    )


def update(variable, slots, gradient, rule):
    """Updates the rows of a variable and of its slots in place.

    It sums the values of repeated rows in their order, and computes in float32
    at least. The bits do not depend on the number of threads. It holds the
    exclusive locks of all the variables meanwhile.

    Args:
      variable: a resource variable `[N, ...]`, see `is_possible`.
      slots: the resource variables of the rule.
      gradient: `tf.IndexedSlices` with values `[U, ...]`; rows may repeat.
      rule: a `Rule`.

    Returns:
      The operation; None in eager mode.

    Raises:
      tf.errors.InvalidArgumentError: shapes do not fit, or an index is outside
        [0, N); nothing is updated then.
    """
    return raw_ops.resource_tf_hsm_sparse_update(
        weights=variable.handle,
        slots=[slot.handle for slot in slots],
        indices=gradient.indices,
        values=tf.cast(gradient.values, wide_dtype(variable.dtype)),
        hyperparameters=rule.hyperparameters,
        T=variable.dtype,
        rule=rule.name,
    )
