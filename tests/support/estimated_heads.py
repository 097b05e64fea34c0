"""Settings and sums for tests of estimated heads."""

import math

import tensorflow as tf

from tf_hsm.estimation import slots
from tf_hsm.estimation.setting import Setting


def setting_of(optimizer="adam", dtype="float32", batch=40):
    """Returns the `Setting` of a step on examples without a length."""
    return Setting(batch, 1, dtype, dtype, slots.of(optimizer))


def total(parts, name):
    """Returns the sum of a field over parts."""
    first, *others = [getattr(part, name) for part in parts]
    return sum(others, first)


def bytes_of(variables):
    """Returns the bytes of variables."""
    return sum(
        math.prod(v.shape) * tf.as_dtype(v.dtype).size for v in variables
    )
