"""Draws from an AdaptiveSoftmax, against float64 NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import inference_reference as reference
from tests.support.adaptive_layers import (
    SOME,
    dense_log_probs,
    make,
    make_inputs,
)
from tf_hsm.layers import AdaptiveSoftmax


@pytest.mark.parametrize(
    "name, options",
    [
        *((name, {}) for name in SOME),
        *((name, {"temperature": 1.7}) for name in SOME),
        ("permuted", {"top_k": 6}),
        ("permuted", {"top_p": 0.8}),
    ],
)
def test_sample(name, options):
    """A chi-square test; the same seed draws the same classes."""
    layer, x = make(name), make_inputs(2)
    draws = layer.sample(x, 20_000, seed=5, **options)
    assert draws.dtype == tf.int64
    restricted = options.keys() & {"top_k", "top_p"}
    log_probs = dense_log_probs(layer, x, options.get("temperature", 1.0))
    for log_p, drawn in zip(log_probs, draws.numpy(), strict=True):
        p = np.exp(log_p)
        if restricted:
            order = np.argsort(-p)
            before = np.cumsum(p[order]) - p[order]
            kept = before < options.get("top_p", 1)
            kept &= np.arange(p.size) < options.get("top_k", p.size)
            p[order[~kept]] = 0
            p /= p.sum()
        assert reference.p_value(drawn, p) > 1e-4
    np.testing.assert_array_equal(
        layer.sample(x, 20_000, seed=5, **options), draws
    )
    other = layer.sample(x, 20_000, seed=6, **options)
    assert np.mean(other != draws) > 0.3


def test_draws_are_independent():
    """Those of an input, of two inputs alike, and of the head and a tail."""
    layer = make()
    x = np.repeat(make_inputs(1), 2, 0)
    one, other = layer.sample(x, 20_000, seed=(7, 2**40)).numpy()
    p = np.exp(dense_log_probs(layer, x[:1]))[0]
    pairs = np.outer(p, p).ravel()
    for a, b in ((one, other), (one[:-1], one[1:])):
        assert reference.p_value(a * 40 + b, pairs) > 1e-4


def test_bad_sample_arguments():
    layer, x = make(), make_inputs(2)
    for options, message in (
        ({"top_k": 0}, "k = 0"),
        ({"top_p": 1.5}, "top_p = 1.5 is not in"),
        ({"top_k": 2, "temperature": 0.0}, "temperature = 0.0 is not"),
    ):
        with pytest.raises(ValueError, match=message):
            layer.sample(x, 3, **options)
    assert layer.sample(x, 0).shape == [2, 0]
    assert layer.sample(x[:0], 3).shape == [0, 3]


def test_no_weights_yet():
    unbuilt = AdaptiveSoftmax(9, cutoffs=[3], width=4, name="words")
    with pytest.raises(ValueError, match="words has no weights yet"):
        unbuilt.sample(make_inputs(2, 3), 1)
