"""Log-probabilities of an AdaptiveSoftmax, against float64 NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import oracle
from tests.support.adaptive_layers import (
    LAYERS,
    assert_close,
    dense_log_probs,
    make,
    make_inputs,
)
from tf_hsm.layers import AdaptiveSoftmax


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-13), (None, 1e-5)])
def test_log_probs(name, dtype, tolerance):
    """Log-probabilities of all and given classes are the negative losses."""
    layer = make(name, dtype=dtype)
    x = make_inputs(3, 4)
    expected = dense_log_probs(layer, x.reshape(12, 12)).reshape(3, 4, -1)
    log_probs = layer.log_probs(x)
    assert log_probs.dtype == layer.loss_dtype
    assert_close(log_probs, expected, tolerance)
    assert_close(np.exp(log_probs).sum(-1), 1, 10 * tolerance)
    rng = np.random.default_rng(0)
    classes = rng.integers(layer.num_classes, size=[3, 4, 7])
    for of in (classes, classes[..., :1].astype("i4"), classes[..., :0]):
        given = np.take_along_axis(expected, of, -1)
        assert_close(layer.log_prob(of, x), given, tolerance)
    assert_close(layer(x, classes[..., 0]), -given_first(expected, classes))
    assert_close(layer.log_probs(x[0, 0]), expected[0, 0], tolerance)
    assert layer.log_probs(x[:0]).shape == [0, 4, layer.num_classes]
    assert layer.log_prob(classes[:0], x[:0]).shape == [0, 4, 7]


def given_first(log_probs, classes):
    return np.take_along_axis(log_probs, classes[..., :1], -1)[..., 0]


def test_log_probs_have_gradients():
    """Gradients of variables and inputs equal finite differences."""
    layer = make("permuted", dtype="float64")
    x = make_inputs(3).astype(float)
    upstream = np.random.default_rng(0).normal(size=[3, 40])
    variables = [v.value for v in layer.weights]
    with tf.GradientTape() as tape:
        inputs = tf.constant(x)
        tape.watch(inputs)
        total = tf.reduce_sum(upstream * layer.log_probs(inputs))
    gradients = tape.gradient(total, [inputs, *variables])

    def of_inputs(values):
        return (upstream * dense_log_probs(layer, values)).sum()

    assert_close(gradients[0], oracle.finite_differences(of_inputs, x), 1e-7)
    for variable, gradient in zip(layer.weights, gradients[1:], strict=True):
        kept = variable.numpy()

        def of_variable(values, variable=variable):
            variable.assign(values)
            return of_inputs(x)

        expected = oracle.finite_differences(of_variable, kept)
        variable.assign(kept)
        assert_close(gradient, expected, 1e-7)


def test_bad_classes():
    layer, x = make(), make_inputs(2, 3)
    error = tf.errors.InvalidArgumentError
    for classes in ([[0, 40]], [[0, -1]]):
        message = rf"classes must be in \[0, 40\)(.|\n)*{classes[0][1]}"
        with pytest.raises(error, match=message):
            layer.log_prob(classes, x[0, :1])
    with pytest.raises(ValueError, match=r"classes, of shape \(3, 2, 4\)"):
        layer.log_prob(np.zeros([3, 2, 4], int), x)
    with pytest.raises(TypeError, match="classes must be integers"):
        layer.log_prob([[0.5]], x[0, :1])


def test_no_weights_yet():
    unbuilt = AdaptiveSoftmax(9, cutoffs=[3], width=4, name="words")
    with pytest.raises(ValueError, match="words has no weights yet"):
        unbuilt.log_probs(make_inputs(2, 3))
