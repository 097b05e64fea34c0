"""Estimates for a machine that is the same everywhere, and their parts."""

import math

import keras
import tensorflow as tf

import tf_hsm
from tf_hsm.estimation import slots
from tf_hsm.estimation.part import Setting

MACHINE = {"flops": 1e11, "read_write": 1e10, "memory": 16e9, "op": 1e-6}


def estimate(*args, **kwargs):
    """`tf_hsm.estimate` of batches of 8 on `MACHINE`."""
    return tf_hsm.estimate(*args, **{"machine": MACHINE, "batch": 8, **kwargs})


def stacked(shape, *layers, dtype="float32"):
    """Returns a model of layers, one after the other."""
    inputs = x = keras.Input(shape, dtype=dtype)
    for layer in layers:
        x = layer(x)
    return keras.Model(inputs, x)


def setting_of(optimizer="adam", dtype="float32", batch=40, length=1):
    """Returns the `Setting` of a step."""
    return Setting(batch, length, dtype, dtype, slots.of(optimizer))


def total(parts, name):
    """Returns the sum of a field over parts."""
    first, *others = [getattr(part, name) for part in parts]
    return sum(others, first)


def bytes_of(variables):
    """Returns the bytes of variables."""
    return sum(
        math.prod(v.shape) * tf.as_dtype(v.dtype).size for v in variables
    )
