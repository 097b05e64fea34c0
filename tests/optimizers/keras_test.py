"""Steps on all rows against Keras' dense optimizers, in float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.keras_rules import CASES, make
from tf_hsm import optimizers

N, WIDTH = 23, 5


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name, stock_name, options", CASES)
def test_all_rows_to_twelve_digits(name, stock_name, options, sparse):
    """Weights and slots; the bias is excluded from the weight decay."""
    ours, stock = make(name, stock_name, options)
    rng = np.random.default_rng(3)
    starts = {"table": rng.normal(size=(N, WIDTH)), "bias": rng.normal(size=N)}
    variables = [
        [
            keras.Variable(start, dtype="float64", name=name)
            for name, start in starts.items()
        ]
        for _ in range(2)
    ]
    for optimizer in (ours, stock):
        optimizer.exclude_from_weight_decay(var_names=["bias"])
    for _ in range(7):
        dense = [rng.normal(size=start.shape) for start in starts.values()]
        rows = rng.permutation(N)
        gradients = list(map(tf.constant, dense))
        stock.apply(gradients, variables[1])
        if sparse:
            gradients = [
                tf.IndexedSlices(g[rows], rows, g.shape) for g in dense
            ]
        ours.apply(gradients, variables[0])
    for mine, its in zip(
        variables[0] + ours.variables,
        variables[1] + stock.variables,
        strict=True,
    ):
        np.testing.assert_allclose(mine, its, 1e-12, 1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_constant_gradient_has_no_negative_variance(momentum, sparse):
    """A difference of two large float32 is negative, and its root NaN."""
    values = np.linspace(900, 1100, N * WIDTH, dtype=np.float32)
    values = values.reshape(N, WIDTH)
    gradient = tf.constant(values)
    if sparse:
        gradient = tf.IndexedSlices(values, np.arange(N), values.shape)
    results = []
    for whose in (optimizers, keras.optimizers):
        variable = keras.Variable(np.zeros([N, WIDTH], np.float32))
        rmsprop = whose.RMSprop(centered=True, momentum=momentum)
        for _ in range(300):
            rmsprop.apply([gradient], [variable])
        results.append(np.isfinite(variable.numpy()))
    assert results[0].all()
    assert not results[1].all()  # The case is one.
