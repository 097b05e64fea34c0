"""The best classes of an AdaptiveSoftmax, against float64 NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import inference_reference as reference
from tests.support.adaptive_layers import (
    COUNTS,
    LAYERS,
    assert_close,
    dense_log_probs,
    make,
    make_inputs,
    make_model,
)
from tests.support.models import evaluated_ops, make_data
from tf_hsm.layers import AdaptiveSoftmax


@pytest.mark.parametrize("name", LAYERS)
def test_top_k(name):
    """Exactly the best classes, for every k."""
    layer = make(name)
    x = make_inputs(3, 4)
    # Some sure of a class in the head, some of one in a tail.
    x *= np.array([0.1, 1, 5], "f4")[:, np.newaxis, np.newaxis]
    log_probs = layer.log_probs(x).numpy()
    order = reference.ranking(dense_log_probs(layer, x.reshape(12, 12)))
    order = order.reshape(3, 4, -1)
    for k in {*range(1, 12), layer.num_classes} - {
        *range(layer.num_classes + 1, 12)
    }:
        found = layer.top_k(x, k)
        assert found.classes.dtype == tf.int64
        np.testing.assert_array_equal(found.classes, order[..., :k])
        own = np.take_along_axis(log_probs, order[..., :k], -1)
        assert_close(found.log_probs, own, 1e-6)
    np.testing.assert_array_equal(layer.predict_class(x), order[..., 0])
    np.testing.assert_array_equal(layer.predict_class(x), order[..., 0])
    assert layer.top_k(x[:0], 1).classes.shape == [0, 4, 1]
    np.testing.assert_array_equal(layer.predict_class(x[1, 2]), order[1, 2, 0])


@pytest.mark.parametrize(
    "name, traced", [*((name, False) for name in LAYERS), ("permuted", True)]
)
def test_top_k_with_bounds(name, traced):
    """Those of the best classes that pass them.

    With fewer rows in a tail, tf.matmul may round otherwise.
    """
    layer, x = make(name), make_inputs(4, 3)
    x *= np.array([0.1, 1, 5], "f4")[:, np.newaxis]
    for k in {1, min(7, layer.num_classes), layer.num_classes}:
        best = layer.top_k(x, k)
        bounds = best.log_probs.numpy()[..., k // 2] - 1e-3
        bounds[0] = -np.inf, np.inf, np.nan
        function = tf.function(layer.top_k) if traced else layer.top_k
        found = function(x, k, bounds=bounds)
        least = np.where(np.isnan(bounds), -np.inf, bounds)[..., np.newaxis]
        is_left = best.log_probs.numpy() >= least
        np.testing.assert_array_equal(
            found.classes, np.where(is_left, best.classes, -1)
        )
        wanted = np.where(is_left, best.log_probs, -np.inf)
        np.testing.assert_allclose(found.log_probs, wanted, rtol=1e-6)
        one = layer.top_k(x[1, 1], k, bounds=bounds[1, 1])
        np.testing.assert_array_equal(one.classes, found.classes[1, 1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="bounds must"):
        layer.top_k(x, 1, bounds=bounds[0])


@pytest.mark.parametrize("k", [1, 3, 7, 20, 40])
def test_top_k_of_ties(k):
    """Equal classes come in the order of their frequency."""
    layer = make()
    for variable in layer.weights:
        variable.assign(tf.zeros_like(variable))
    order = np.lexsort((np.arange(40), -COUNTS))
    # The head has 8 rows; 3 of them are tails, of 4, 12 and 19 classes.
    np.testing.assert_array_equal(
        layer.top_k(make_inputs(2), k).classes, [order[:k]] * 2
    )


@pytest.mark.parametrize("where", ["inputs", "head", "tail"])
@pytest.mark.parametrize("k", [1, 8, 40])
def test_top_k_of_nan(where, k):
    """No class twice, and NaN after all numbers."""
    layer, x = make(), make_inputs(4)
    if where == "inputs":
        x[2, 3] = np.nan
    else:
        kernel = layer.head_kernel if where == "head" else layer.tail_kernels[1]
        kernel.assign(kernel.numpy() * np.nan)
    found = layer.top_k(x, k)
    for row in found.classes.numpy():
        assert len({*row}) == k and row.min() >= 0 and row.max() < 40
    log_probs = layer.log_probs(x).numpy()
    log_probs[np.isnan(log_probs)] = -np.inf
    np.testing.assert_allclose(
        found.log_probs, -np.sort(-log_probs)[:, :k], rtol=1e-5
    )
    if where != "tail":
        bad = [2] if where == "inputs" else [0, 1, 2, 3]
        for options in ({}, {"top_k": 3}):
            drawn = layer.sample(x, 5, seed=1, **options).numpy()
            assert (drawn[bad] == -1).all()


@pytest.mark.parametrize("k", [0, 41])
def test_bad_k(k):
    with pytest.raises(ValueError, match=rf"k = {k} is not in \[1, 40\]"):
        make().top_k(make_inputs(2, 3), k)


def test_no_weights_yet():
    unbuilt = AdaptiveSoftmax(9, cutoffs=[3], width=4, name="words")
    with pytest.raises(ValueError, match="words has no weights yet"):
        unbuilt.top_k(make_inputs(2, 3), 1)


def test_evaluate_looks_for_no_class():
    """TensorFlow leaves the search out where nobody asks for its result."""
    tokens, labels = make_data()
    model, _ = make_model()
    model.evaluate(tokens, labels, verbose=0)
    types = evaluated_ops(model, tokens, labels)
    assert "ResourceTfHsmLoss" in types
    assert not types & {"ResourceTfHsmTopK", "ResourceTfHsmLogProbs"}
