"""Losses and gradients of AdaptiveSoftmax, against the formulas in float64."""

import itertools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tests.support import head_oracle
from tests.support.adaptive_layers import LAYERS, make


def make_inputs(layer, shape=(31,)):
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=[*shape, 12]).astype(layer.compute_dtype)
    return inputs, rng.integers(layer.num_classes, size=shape)


def check(layer, x, labels, ignore=()):
    """Compares losses and gradients with the formulas."""
    losses, (dx, *gradients) = head_oracle.slopes(
        layer, tf.constant(x), lambda inputs: layer(inputs, labels)
    )
    assert losses.dtype == layer.loss_dtype and losses.shape == labels.shape
    counted = np.where(np.isin(labels, ignore), -1, labels).reshape(-1, 1)
    wanted, (wanted_dx, *wanted_gradients) = head_oracle.slopes(
        layer,
        tf.constant(x.reshape(-1, x.shape[-1]).astype(float)),
        lambda inputs: head_oracle.losses(layer, inputs, counted),
    )
    # Sums have the type of the losses, and gradients are rounded at the end.
    rounding = 32 * float(ml_dtypes.finfo(layer.loss_dtype).eps)
    assert_near(tf.reshape(losses, [-1]), wanted, rounding)
    rounding = max(rounding, 4 * float(ml_dtypes.finfo(dx.dtype.name).eps))
    assert_near(tf.reshape(dx, wanted_dx.shape), wanted_dx, rounding)
    for variable, gradient, its in zip(
        layer.weights, gradients, wanted_gradients, strict=True
    ):
        its = tf.convert_to_tensor(its)
        if isinstance(gradient, tf.IndexedSlices):
            rows = gradient.indices.numpy()
            assert (np.diff(rows) > 0).all(), variable.path
            assert not np.delete(its, rows, 0).any()
        else:
            assert "projection" in variable.path
        assert_near(tf.convert_to_tensor(gradient), its, rounding)


def assert_near(found, wanted, rounding):
    """Asserts errors below `rounding` times the largest number, or 1."""
    found, wanted = (tf.cast(a, "float64").numpy() for a in (found, wanted))
    bound = rounding * np.abs(wanted).max(initial=1)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize(
    "name, dtype",
    [
        *itertools.product(LAYERS, ["float64", "float32"]),
        *itertools.product(
            ["permuted", "trees", "as_wide"], ["bfloat16", "float16"]
        ),
    ],
)
def test_losses_and_gradients(name, dtype):
    """In float64 the tolerance leaves no room for a wrong formula."""
    layer = make(name, dtype=dtype)
    check(layer, *make_inputs(layer))


@pytest.mark.parametrize(
    "shape, label",
    [((0,), 0), ((3, 0), 0), ((6,), 2), ((6,), 11), ((2, 3, 4), None)],
    ids=["empty", "empty_2d", "head_only", "one_tail", "leading"],
)
def test_batches(shape, label):
    """Tails without examples, among them."""
    layer = make("narrow")
    x, drawn = make_inputs(layer, shape)
    check(layer, x, drawn if label is None else np.full(shape, label))


@pytest.mark.parametrize(
    "ignored, dtype",
    [(-1, "int32"), (3, "int64"), (30, "int32"), (10**6, "int64")],
)
def test_ignore_class(ignored, dtype):
    """A class of a tail, of the head, or none at all."""
    layer = make(ignore_class=ignored)
    x, labels = make_inputs(layer, (7, 5))
    labels[::2, 1] = ignored
    check(layer, x, labels.astype(dtype), [ignored])
