"""Beams within the tails of an AdaptiveSoftmax."""

import numpy as np
import pytest

from tests.support import inference_reference as reference
from tests.support.adaptive_layers import dense_log_probs, make, make_inputs
from tf_hsm import Tree

TAILS = {"cutoffs": [5, 20], "tail": [2, Tree.huffman(range(1, 21))]}


def inputs():
    """Some inputs are sure of a class, others of none."""
    x = make_inputs(60)
    return x * np.geomspace(0.1, 5, 60, dtype="f4")[:, np.newaxis]


@pytest.mark.parametrize("k", [1, 4, 9])
@pytest.mark.parametrize("beam_width", [1, 2])
def test_nothing_pruned_is_exact(k, beam_width):
    """Some beams leave out nodes, and some of these miss a class."""
    layer, x = make("permuted", **TAILS), inputs()
    order = reference.ranking(dense_log_probs(layer, x))[:, :k]
    exact = layer.top_k(x, k, return_pruned=True)
    np.testing.assert_array_equal(exact.classes, order)
    assert not exact.num_pruned.numpy().any()
    beam = layer.top_k(x, k, beam_width=beam_width, return_pruned=True)
    assert beam.num_pruned.shape == [60]
    is_whole = beam.num_pruned.numpy() == 0
    assert not is_whole.all() and (is_whole.any() or k > 4)
    classes = beam.classes.numpy()
    is_same = (classes == order).all(1)
    assert is_same[is_whole].all()
    if beam_width == 1:
        assert not is_same.all()
    # What a beam finds has its own log-probability, and no class comes twice.
    log_probs = layer.log_probs(x).numpy()
    np.testing.assert_allclose(
        beam.log_probs, np.take_along_axis(log_probs, classes, 1), rtol=1e-5
    )
    assert all(np.unique(row).size == k for row in classes)


def test_a_sure_shortlist_prunes_nothing():
    """A tail that cannot hold one of the best classes is not searched."""
    layer, x = make("permuted", **TAILS), make_inputs(8)
    bias = layer.head_bias.numpy()
    bias[:5] += 100
    layer.head_bias.assign(bias)
    found = layer.top_k(x, 3, beam_width=1, return_pruned=True)
    assert not found.num_pruned.numpy().any()
    np.testing.assert_array_equal(found.classes, layer.top_k(x, 3).classes)


@pytest.mark.parametrize("k", [1, 7, 40])
def test_wide_beams_are_exact(k):
    """A beam that is as wide as each tail's tree has the bits of the search."""
    layer, x = make("permuted", **TAILS), inputs()
    exact = layer.top_k(x, k, return_pruned=True)
    found = layer.top_k(x, k, beam_width=40, return_pruned=True)
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_array_equal(one, other)
    pair = layer.top_k(x, k, beam_width=40)
    assert len(pair) == 2
    np.testing.assert_array_equal(pair.classes, exact.classes)


def test_shapes():
    layer, x = make("permuted", **TAILS), inputs()
    flat = layer.top_k(x, 4, beam_width=1, return_pruned=True)
    x = x.reshape(5, 12, -1)
    found = layer.top_k(x, 4, beam_width=1, return_pruned=True)
    assert found.num_pruned.shape == [5, 12]
    for one, other in zip(found, flat, strict=True):
        np.testing.assert_array_equal(np.reshape(one, other.shape), other)


def test_wrong_beams():
    layer = make("permuted", **TAILS)
    with pytest.raises(ValueError, match="beam_width = 0 is below 1"):
        layer.top_k(make_inputs(2), 3, beam_width=0)
