"""Constraints that can be applied to the touched rows of a variable."""

import functools

import numpy as np
import tensorflow as tf


def is_possible(variable):
    """Whether a variable has no constraint, or one of each row by itself."""
    if variable.constraint is None:
        return True
    return _takes_rows_alone(
        variable.constraint, tuple(variable.shape[1:]), variable.dtype
    )


@functools.lru_cache(maxsize=128)
def _takes_rows_alone(constraint, shape, dtype):
    """Tries it on a few rows together and on each: large ones, small ones."""
    rows = np.random.default_rng(0).normal(size=[3, *shape])
    with tf.init_scope():
        for scale in (1e-3, 1.0, 1e3):
            values = tf.cast(scale * rows, dtype)
            together = tf.cast(constraint(values), tf.float64)
            alone = [constraint(values[i : i + 1]) for i in range(3)]
            alone = tf.cast(tf.concat(alone, 0), tf.float64)
            if not np.allclose(together, alone, rtol=1e-2, atol=0):
                return False
    return True
