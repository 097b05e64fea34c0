"""Stochastic rounding by TensorFlow's ops."""

import numpy as np
import tensorflow as tf

from tf_hsm.optimizers._rounding import round_at_random


def rounded(values, seed=3):
    found = round_at_random(
        tf.constant(values, tf.float32), tf.constant(seed, tf.int64)
    )
    assert found.dtype == tf.bfloat16
    return found.numpy().astype("f8")


def test_mean_and_neighbours():
    """Each result is one of the two neighbours; their mean is the number."""
    for value in (1.001, -3.3e-5, 7.7e20):
        many = rounded(np.full(100_000, value))
        low, high = np.unique(many)
        assert low < value < high
        spacing = high - low
        assert spacing <= abs(value) / 128
        assert abs(many.mean() - value) < 0.01 * spacing


def test_what_bfloat16_has_stays():
    values = np.array([0.0, -0.0, 1.0, -2.5, 2.0**-130, np.inf, -np.inf])
    for seed in range(20):
        found = rounded(values, seed)
        np.testing.assert_array_equal(found, values)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(values))


def test_nan():
    every_nan = np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32)
    assert np.isnan(rounded(every_nan.view("f4"))).all()


def test_seeds():
    values = np.linspace(1, 2, 1000)
    np.testing.assert_array_equal(rounded(values), rounded(values))
    assert (rounded(values) != rounded(values, 4)).any()
