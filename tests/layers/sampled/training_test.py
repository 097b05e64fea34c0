"""SampledSoftmax in fit: both forms, resumed training, what it touches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.models import (
    NUM_CLASSES,
    WIDTH,
    assert_same_weights,
    compile_form,
    endpoint_form,
    head_of,
    make_data,
    sampled_head,
    sampled_losses,
    sgd,
    train,
    train_graph,
)
from tf_hsm import optimizers


def test_both_forms_train_alike():
    """Each batch of `fit` has a draw; `evaluate` has all classes."""
    tokens, labels = make_data()
    labels[:4, 0] = -1
    weights = np.random.default_rng(1).uniform(size=tokens.shape).astype("f4")
    options = {"make": sampled_head, "ignore_class": -1}
    fitted = compile_form(**options)
    endpoint = endpoint_form(weighted=True, **options)
    fitted.run_eagerly = endpoint.run_eagerly = True
    endpoint.set_weights(fitted.get_weights())
    losses = train(fitted, tokens, labels, sample_weight=weights)
    np.testing.assert_allclose(
        train(endpoint, [tokens, labels, weights]), losses, rtol=1e-5
    )
    assert_same_weights(fitted, endpoint)
    # Three batches, twice.
    assert head_of(fitted).step.numpy() == head_of(endpoint).step.numpy() == 6

    fitted.evaluate(tokens, labels, verbose=0)
    assert head_of(fitted).step.numpy() == 6


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_nothing_has_the_size_of_the_kernel(policy):
    """Rows are gathered and updated; no tensor has all of them."""
    head = sampled_head(dtype=policy)
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile(optimizers.SGD(0.5), head.loss)
    graph = train_graph(model, np.zeros([8, WIDTH], "f4"), np.arange(8))
    kernel = head.kernel.value
    handle = next(i for outer, i in graph.captures if outer is kernel.handle)
    kinds = sorted({op.type for op in handle.consumers()})
    assert kinds == ["ResourceGather", "ResourceTfHsmSparseUpdate"]
    for op in graph.get_operations():
        if op.type not in ("Placeholder", "Const"):  # the tables of the draws
            for tensor in op.outputs:
                assert list(tensor.shape[:1]) != [NUM_CLASSES], op.name


def test_penalties_of_touched_rows():
    """A tape sees the gathered rows once; without one, all rows count."""
    head = sampled_head(
        kernel_regularizer=keras.regularizers.L2(0.03),
        bias_regularizer=keras.regularizers.L1(0.02),
        bias_initializer="random_normal",
        ignore_class=-1,
    )
    x = np.random.default_rng(0).normal(size=[5, WIDTH]).astype("f4")
    labels = np.array([4, 4, 11, -1, 29])
    head.build(x.shape)
    kernel, bias, _ = head.get_weights()

    def penalty(rows):
        return (
            0.03 * np.sum(kernel[rows] ** 2) + 0.02 * np.abs(bias[rows]).sum()
        )

    rows = np.union1d([4, 11, 29], head._draws.draw(3, 0))
    assert rows.size < NUM_CLASSES
    with tf.GradientTape() as tape:
        losses = head(x, labels)
        total = sum(head.losses)
    np.testing.assert_allclose(total, np.sum(losses) / 4 + penalty(rows), 1e-5)
    gradient = tape.gradient(total, head.kernel.value)
    np.testing.assert_array_equal(gradient.indices, rows)
    losses = head(x, labels)
    total = np.sum(losses) / 4 + penalty(slice(None))
    np.testing.assert_allclose(sum(head.losses), total, 1e-5)


def test_one_head_used_twice():
    """Each use has a draw of its own."""
    rng = np.random.default_rng(0)
    x = [rng.normal(size=[8, WIDTH]).astype("f4") for _ in range(2)]
    y = [rng.integers(NUM_CLASSES, size=8) for _ in range(2)]
    inputs = [keras.Input([WIDTH]), keras.Input([WIDTH])]
    head = sampled_head()
    model = keras.Model(inputs, [head(i) for i in inputs])
    model.compile(sgd(), loss=[head.loss, head.loss], run_eagerly=True)
    weights = head.get_weights()
    loss = train(model, x, y, epochs=1)
    assert head.step.numpy() == 2
    head.set_weights(weights)
    parts = [sampled_losses(head, *pair) for pair in zip(x, y, strict=True)]
    np.testing.assert_allclose(loss, [np.mean(parts) * 2], rtol=1e-5)
