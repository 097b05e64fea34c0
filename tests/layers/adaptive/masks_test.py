"""Answers of an AdaptiveSoftmax among allowed classes, by brute force."""

import functools

import numpy as np
import pytest

from tests.support.adaptive_layers import (
    LAYERS,
    dense_log_probs,
    make,
    make_inputs,
)
from tests.support.masks import BATCH, check, lists_of, masked
from tests.support.pairs import all_pairs
from tests.support.training import assert_near
from tf_hsm.heads.tree_head import TreeHead

# The chance of a class, and the number of lists; some lists have none.
MASKS = [(0.0, 1), (0.0, BATCH), (0.1, BATCH), (0.5, 1), (0.5, BATCH), (1.0, 1)]

# For tests that leave the weights as they are.
made = functools.cache(make)


def drawn_mask(num_classes, chance, count):
    """A mask `[count, N]`."""
    return np.random.default_rng(0).random([count, num_classes]) < chance


def sharpened(x):
    """Some sure of a class in the head, some of one in a tail."""
    return x * np.linspace(0.1, 5, len(x), dtype="f4")[:, np.newaxis]


@pytest.mark.parametrize(
    "name, drawn, renormalize, k",
    all_pairs([*LAYERS], MASKS, [False, True], [1, 6, 40]),
)
def test_answers(name, drawn, renormalize, k):
    """A sort of what is allowed; the rest is -1."""
    layer, x = made(name), sharpened(make_inputs(BATCH))
    k = min(k, layer.num_classes)
    mask = drawn_mask(layer.num_classes, *drawn)
    options = {"allowed": lists_of(mask), "renormalize": renormalize}
    log_probs = dense_log_probs(layer, x)
    pairs = zip(log_probs, np.broadcast_to(mask, log_probs.shape), strict=True)
    values = np.stack([masked(*pair, renormalize) for pair in pairs])
    check(layer.top_k(x, k, **options), values, mask, k, exact=False)
    shape = [BATCH, 9]
    asked = np.random.default_rng(2).integers(layer.num_classes, size=shape)
    found = layer.log_prob(asked, x, **options)
    assert_near(found, np.take_along_axis(values, asked, 1), 1e-5)


def test_sequences():
    """tests/ops/allowed_test.py has the forms of lists."""
    layer, x = make(), make_inputs(2, 3)
    mask = np.random.default_rng(0).random([6, 40]) < 0.3
    lists = lists_of(mask).reshape(2, 3, -1)
    found = layer.top_k(x, 5, allowed=lists)
    flat = layer.top_k(x.reshape(6, -1), 5, allowed=lists.reshape(6, -1))
    for one, other in zip(found, flat, strict=True):
        assert one.shape == [2, 3, 5]
        np.testing.assert_array_equal(np.reshape(one, [6, 5]), other)
    single = layer.top_k(x[1, 2], 5, allowed=lists[1, 2])
    np.testing.assert_array_equal(single.classes, found.classes[1, 2])
    shared = layer.top_k(x, 5, allowed=mask[0])
    np.testing.assert_array_equal(shared.classes[0, 0], found.classes[0, 0])
    assert layer.top_k(x[:0], 2, allowed=[1]).classes.shape == [0, 3, 2]


@pytest.mark.parametrize("allowed", [[0, 1, 2], [[3], [35], [-1]]])
def test_tails_without_an_allowed_class_are_not_searched(allowed, monkeypatch):
    """Nor are they for those inputs of a batch that may have none of it."""
    searched = []

    def spy(head, inputs, *args, **options):
        searched.append(len(inputs))
        return search(head, inputs, *args, **options)

    search = TreeHead.top_k
    monkeypatch.setattr(TreeHead, "top_k", spy)
    # A shortlist of 5, and tails of 4, 12 and 19 classes.
    make("narrow").top_k(make_inputs(3), 4, allowed=allowed)
    assert searched == ([0, 0, 0] if allowed[0] == 0 else [0, 0, 1])


@pytest.mark.parametrize("where", ["shortlist", "tail"])
def test_allowed_classes_of_probability_zero(where):
    """They come last, but before what is not allowed."""
    layer, x = make("narrow"), make_inputs(3)
    if where == "shortlist":
        # No tail has a probability; class 30 is in one.
        is_class = np.arange(8) < 5
        layer.head_bias.assign(np.where(is_class, layer.head_bias, -np.inf))
    else:
        layer.tail_biases[2].assign(layer.tail_biases[2].numpy() * np.nan)
    found = layer.top_k(x, 3, allowed=[30, 2])
    np.testing.assert_array_equal(found.classes, [[2, 30, -1]] * 3)
    assert np.isinf(found.log_probs[:, 1:]).all()
    assert np.isfinite(found.log_probs[:, 0]).all()
