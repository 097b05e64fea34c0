"""Stochastic rounding, by TensorFlow's own ops."""

import tensorflow as tf


def round_at_random(values, seed):
    """Rounds each number up or down, so that it is right in the mean.

    A number goes to one of its two neighbours in bfloat16, with more
    probability to the nearer one.

    Args:
      values: float32.
      seed: a scalar int64. The same seed gives the same numbers on all devices
        of a kind.

    Returns:
      bfloat16, of the same shape.
    """
    noise = tf.random.stateless_uniform(
        tf.shape(values),
        tf.stack([seed, tf.zeros_like(seed)]),
        minval=None,
        maxval=None,
        dtype=tf.uint32,
    )
    low = tf.constant(0xFFFF, tf.uint32)
    bits = tf.bitcast(values, tf.uint32) + (noise & low)
    rounded = tf.bitcast(bits & ~low, tf.float32)
    # A NaN could become another number.
    rounded = tf.where(tf.math.is_finite(values), rounded, values)
    return tf.cast(rounded, tf.bfloat16)
