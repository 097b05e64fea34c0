"""SampledSoftmax in fit: both forms, resumed training, what it touches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.models import (
    NUM_CLASSES,
    WIDTH,
    sampled_head,
    train_graph,
)
from tf_hsm import optimizers


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
