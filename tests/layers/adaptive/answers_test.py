"""Answers of an AdaptiveSoftmax, against the formulas in float64."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import head_oracle
from tests.support import inference_reference as reference
from tests.support.adaptive_layers import (
    COUNTS,
    LAYERS,
    SOME,
    dense_log_probs,
    make,
    make_inputs,
)
from tests.support.masks import BATCH, check, lists_of, masked
from tests.support.pairs import all_pairs
from tests.support.training import assert_near
from tf_hsm import Tree
from tf_hsm.heads.tree_head import TreeHead


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-13), (None, 1e-5)])
def test_log_probs(name, dtype, tolerance):
    """Log-probabilities of all and given classes are the negative losses."""
    layer = make(name, dtype=dtype)
    x = make_inputs(3, 4)
    expected = dense_log_probs(layer, x.reshape(12, 12)).reshape(3, 4, -1)
    log_probs = layer.log_probs(x)
    assert log_probs.dtype == layer.loss_dtype
    assert_near(log_probs, expected, tolerance)
    assert_near(np.exp(log_probs).sum(-1), 1, 10 * tolerance)
    rng = np.random.default_rng(0)
    classes = rng.integers(layer.num_classes, size=[3, 4, 7])
    for of in (classes, classes[..., :1].astype("i4"), classes[..., :0]):
        given = np.take_along_axis(expected, of, -1)
        assert_near(layer.log_prob(of, x), given, tolerance)
    assert_near(layer.log_probs(x[0, 0]), expected[0, 0], tolerance)
    assert layer.log_probs(x[:0]).shape == [0, 4, layer.num_classes]
    assert layer.log_prob(classes[:0], x[:0]).shape == [0, 4, 7]


def test_log_probs_have_gradients():
    """Inputs and all variables have the gradients of the formulas."""
    layer = make("permuted", dtype="float64")
    rows = head_oracle.Rows(layer).class_rows

    def formulas(x):
        return tf.gather(head_oracle.log_probs(layer, x), rows, axis=1)

    x = tf.constant(make_inputs(3), "float64")
    slopes = [
        head_oracle.slopes(layer, x, log_probs)[1]
        for log_probs in (layer.log_probs, formulas)
    ]
    for found, wanted in zip(*slopes, strict=True):
        assert_near(*map(tf.convert_to_tensor, (found, wanted)), 1e-12)


X = make_inputs(3)
ERRORS = TypeError, ValueError, tf.errors.InvalidArgumentError
ONES, RANGE = [[1]] * 3, r"is outside \[0, 40\)"
# Words of the error, and what is asked of a layer of 40 classes.
WRONG = [
    (
        rf"classes\[1\] = 40 {RANGE}",
        lambda layer: layer.log_prob([[0, 40]], X[:1]),
    ),
    (
        rf"classes\[1\] = -1 {RANGE}",
        lambda layer: layer.log_prob([[0, -1]], X[:1]),
    ),
    (rf"classes\[1\] = 40 {RANGE}", lambda layer: layer.embed([0, 40])),
    (rf"classes\[1\] = -1 {RANGE}", lambda layer: layer.embed([0, -1])),
    ("classes must be int", lambda layer: layer.log_prob([[0.5]], X[:1])),
    ("classes must be integers", lambda layer: layer.embed([0.5])),
    (r"of shape \(3, 3, 1\)", lambda layer: layer.log_prob([ONES] * 3, X)),
    (r"k = 0 is outside \[1, 40\]", lambda layer: layer.top_k(X, 0)),
    (r"k = 41 is outside \[1, 40\]", lambda layer: layer.top_k(X, 41)),
    ("beam_width = 0 is", lambda layer: layer.top_k(X, 3, beam_width=0)),
    ("bounds must", lambda layer: layer.top_k(X, 1, bounds=[0.0] * 2)),
    ("k = 0", lambda layer: layer.sample(X, 3, top_k=0)),
    ("top_p = 1.5 is not in", lambda layer: layer.sample(X, 3, top_p=1.5)),
    (
        "temperature = -1.0 is not",
        lambda layer: layer.sample(X, 3, top_k=2, temperature=-1.0),
    ),
    ("allowed must be int", lambda layer: layer.sample(X, 2, allowed=[0.5])),
    *(
        (words, lambda layer, ask=ask, options=options: ask(layer, **options))
        for ask in (
            lambda layer, **options: layer.top_k(X, 2, **options),
            lambda layer, **options: layer.log_prob(ONES, X, **options),
        )
        for words, options in (
            ("renormalize needs allowed", {"renormalize": True}),
            (r"0, 40\)", {"allowed": [40]}),
            ("allowed must", {"allowed": [[1], [2]]}),
        )
    ),
]


@pytest.mark.parametrize("words, call", WRONG)
def test_wrong_calls(words, call):
    with pytest.raises(ERRORS, match=words):
        call(make())


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
        assert_near(found.log_probs, own, 1e-6)
    np.testing.assert_array_equal(layer.predict_class(x), order[..., 0])
    np.testing.assert_array_equal(layer.predict_class(x), order[..., 0])
    assert layer.top_k(x[:0], 1).classes.shape == [0, 4, 1]
    np.testing.assert_array_equal(layer.predict_class(x[1, 2]), order[1, 2, 0])


@pytest.mark.parametrize(
    "name, traced, options",
    [
        *((name, False, {}) for name in LAYERS),
        ("permuted", True, {}),
        ("permuted", False, {"allowed": np.arange(3, 40, 2)}),
    ],
)
def test_top_k_with_bounds(name, traced, options):
    """Those of the best classes that pass them.

    With fewer rows in a tail, tf.matmul may round otherwise.
    """
    layer, x = make(name), make_inputs(4, 3)
    x *= np.array([0.1, 1, 5], "f4")[:, np.newaxis]
    top_k = functools.partial(layer.top_k, **options)
    for k in {1, min(7, layer.num_classes), layer.num_classes}:
        best = top_k(x, k)
        bounds = best.log_probs.numpy()[..., k // 2] - 1e-3
        bounds[0] = -np.inf, np.inf, np.nan
        function = tf.function(top_k) if traced else top_k
        found = function(x, k, bounds=bounds)
        least = np.where(np.isnan(bounds), -np.inf, bounds)[..., np.newaxis]
        is_left = best.log_probs.numpy() >= least
        np.testing.assert_array_equal(
            found.classes, np.where(is_left, best.classes, -1)
        )
        wanted = np.where(is_left, best.log_probs, -np.inf)
        np.testing.assert_allclose(found.log_probs, wanted, rtol=1e-6)
        one = top_k(x[1, 1], k, bounds=bounds[1, 1])
        np.testing.assert_array_equal(one.classes, found.classes[1, 1])


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
    """No class twice, and NaN after all numbers; -1 where all are NaN."""
    layer, x = make(), make_inputs(4)
    if where == "inputs":
        x[2, 3] = np.nan
    else:
        kernel = layer.head_kernel if where == "head" else layer.tail_kernels[1]
        kernel.assign(kernel.numpy() * np.nan)
    found = layer.top_k(x, k)
    bad = {"inputs": [2], "head": [0, 1, 2, 3], "tail": []}[where]
    for i, row in enumerate(found.classes.numpy()):
        named = row[row >= 0]
        assert len({*named}) == named.size and (named < 40).all()
        # The second tail has 12 classes, which are left where k is all.
        assert named.size == 0 if i in bad else named.size >= min(k, 28)
    log_probs = layer.log_probs(x).numpy()
    log_probs[np.isnan(log_probs)] = -np.inf
    np.testing.assert_allclose(
        found.log_probs, -np.sort(-log_probs)[:, :k], rtol=1e-5
    )
    if bad:
        for options in ({}, {"top_k": 3}):
            drawn = layer.sample(x, 5, seed=1, **options).numpy()
            assert (drawn[bad] == -1).all()


@pytest.mark.parametrize(
    "name, options, chance",
    [
        *((name, {}, chance) for name in SOME for chance in (0.4, 1.0)),
        *((name, {"temperature": 1.7}, 1.0) for name in SOME),
        ("permuted", {"temperature": 1.7}, 0.4),
        ("permuted", {"top_k": 6}, 1.0),
        ("permuted", {"top_k": 4}, 0.4),
        ("permuted", {"top_p": 0.8}, 1.0),
        ("permuted", {"top_p": 0.7}, 0.4),
    ],
)
def test_sample(name, options, chance):
    """A chi-square test; the same seed draws the same classes.

    `chance` is the share of the classes that are allowed.
    """
    layer, x = make(name), make_inputs(3)
    mask = np.random.default_rng(0).random([3, layer.num_classes]) < chance
    if chance < 1:
        options = {**options, "allowed": lists_of(mask)}
    draws = layer.sample(x, 20_000, seed=5, **options)
    assert draws.dtype == tf.int64
    temperature = options.get("temperature", 1.0)
    if chance < 1:
        # The temperature is for the probabilities of the allowed classes.
        log_probs = dense_log_probs(layer, x) / temperature
    else:
        log_probs = dense_log_probs(layer, x, temperature)
    for drawn, log_p, its in zip(draws.numpy(), log_probs, mask, strict=True):
        p = np.where(its, np.exp(log_p), 0)
        p /= p.sum()
        order = np.argsort(-p)
        kept = np.cumsum(p[order]) - p[order] < options.get("top_p", 1)
        kept &= np.arange(p.size) < options.get("top_k", p.size)
        p[order[~kept]] = 0
        assert reference.p_value(drawn, p / p.sum()) > 1e-4
    np.testing.assert_array_equal(
        layer.sample(x, 20_000, seed=5, **options), draws
    )
    other = layer.sample(x, 20_000, seed=6, **options)
    assert np.mean(other != draws) > 0.05


def test_draws_of_nothing():
    layer = make()
    assert layer.sample(X, 0).shape == [3, 0]
    assert layer.sample(X[:0], 3).shape == [0, 3]
    nothing = layer.sample(X, 2, seed=1, allowed=[-1])
    np.testing.assert_array_equal(nothing, np.full([3, 2], -1))


def test_draws_are_independent():
    """Those of an input, of two inputs alike, and of the head and a tail."""
    layer = make()
    x = np.repeat(make_inputs(1), 2, 0)
    one, other = layer.sample(x, 20_000, seed=(7, 2**40)).numpy()
    p = np.exp(dense_log_probs(layer, x[:1]))[0]
    pairs = np.outer(p, p).ravel()
    for a, b in ((one, other), (one[:-1], one[1:])):
        assert reference.p_value(a * 40 + b, pairs) > 1e-4


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
def test_allowed(name, drawn, renormalize, k):
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


def test_lists_of_sequences():
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
    """A tail is searched only for inputs that may have one of its classes."""
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
    """Impossible classes come last, but before what is not allowed or NaN."""
    layer, x = make("narrow"), make_inputs(3)
    if where == "shortlist":
        # No tail has a probability; class 30 is in one.
        is_class = np.arange(8) < 5
        layer.head_bias.assign(np.where(is_class, layer.head_bias, -np.inf))
    else:
        layer.tail_biases[2].assign(layer.tail_biases[2].numpy() * np.nan)
    found = layer.top_k(x, 3, allowed=[30, 2])
    second = 30 if where == "shortlist" else -1
    np.testing.assert_array_equal(found.classes, [[2, second, -1]] * 3)
    assert np.isinf(found.log_probs[:, 1:]).all()
    assert np.isfinite(found.log_probs[:, 0]).all()
