"""Draws, against the probabilities of the float64 reference."""

import functools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import inference_reference as reference
from tests.support import (
    masks,
    oracle,
    references,
    trees,
)
from tests.support.inference_reference import p_value
from tests.support.pairs import all_pairs
from tests.support.references import FORESTS, NAMES, build

sample = tf_hsm.hierarchical_softmax_sample

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
# A right distribution fails one test in 10,000 on each side; with fixed seeds,
# always or never.
LEAST = 1e-4

HUFFMAN = build("huffman_4ary")


def is_drawn_from(draws, probs):
    """Not from others; and not closer to them than chance would have it."""
    if np.count_nonzero(probs) == 1:
        return (probs[draws] == 1).all()
    return LEAST < p_value(draws, probs) < 1 - LEAST


def problem_on(tree, batch=1, dtype=np.float32, scale=0.5):
    """A random problem without very improbable classes."""
    problem = references.random_problem(tree, batch, 5, dtype, seed=batch)
    return problem.replace(
        weights=(problem.weights * scale).astype(dtype),
        biases=(problem.biases * scale).astype(dtype),
    )


def arguments_of(problem):
    return problem.weights, problem.biases, problem.inputs


def class_probs(tree, problem, starts=None):
    """Probabilities `[B, N]` by the reference; `starts`: of the roots."""
    nodes, _ = references.node_log_probs(tree, problem)
    if starts is not None:
        starts = starts - np.log(np.exp(starts).sum(-1, keepdims=True))
        nodes = nodes + starts[:, references.roots_of_rows(tree)]
    return np.exp(reference.by_class(tree, nodes))


def test_p_value():
    """It tells the right distribution from one that is off by 2 %."""
    rng = np.random.default_rng(0)
    probs = rng.random(50) + 0.1
    probs /= probs.sum()
    values = [
        p_value(rng.choice(50, size=10_000, p=probs), probs) for _ in range(200)
    ]
    np.testing.assert_allclose(
        np.quantile(values, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.06
    )
    other = probs * (1 + 0.02 * rng.choice([-1, 1], size=50))
    draws = rng.choice(50, size=1_000_000, p=other / other.sum())
    assert p_value(draws, probs) < 1e-9
    # Draws that are spread too evenly.
    even = np.repeat(np.arange(50), (1_000_000 * probs).astype(int))
    assert p_value(even, probs) > 1 - LEAST


@pytest.mark.parametrize(
    "name, dtype",
    [
        ("two_level_100", np.float32),
        ("binary_37", ml_dtypes.bfloat16),
        ("huffman_4ary", np.float32),
        ("chain_50", np.float64),
        ("one_huge_group", np.float16),
    ],
)
def test_a_million_draws(name, dtype):
    """By their probabilities, and by no others."""
    tree = build(name)
    problem = problem_on(tree, 2, dtype)
    probs = class_probs(tree, problem)
    draws = sample(*arguments_of(problem), tree, 600_000, seed=3).numpy()
    for i in range(2):
        assert is_drawn_from(draws[i], probs[i])
        assert p_value(draws[i], probs[1 - i]) < 1e-9
    # The same model but for weights that are off by 3 %.
    weights = (1.03 * problem.weights.astype(np.float64)).astype(dtype)
    other = class_probs(tree, problem.replace(weights=weights))
    assert p_value(draws[0], other[0]) < LEAST


def test_a_chain_of_10000_levels():
    """Weights that lead down to its end."""
    tree = trees.DEEP["chain_10000"]()
    goes_on = tree.row_classes < 0
    weights = np.where(goes_on, 9.2, 0.0)[:, np.newaxis]  # e^-9.2: 1 of 10,000
    draws = sample(weights, None, np.ones([1]), tree, 3_000, seed=0).numpy()
    problem = oracle.Problem(np.ones([1, 1]), None, weights, None, None)
    (probs,) = class_probs(tree, problem)
    tenths = np.argsort(np.argsort(tree.class_rows)) // 1_000
    assert is_drawn_from(tenths[draws], np.bincount(tenths, probs))


def test_a_soft_cap():
    """By the capped probabilities, and not by the others."""
    tree = build("flat")
    problem = references.random_problem(tree, 1, 5, np.float32)
    capped = problem.replace(logit_soft_cap=1.0)
    draws = sample(
        *arguments_of(problem), tree, 200_000, seed=3, logit_soft_cap=1.0
    ).numpy()
    assert is_drawn_from(draws, class_probs(tree, capped)[0])
    assert p_value(draws, class_probs(tree, problem)[0]) < LEAST


def test_independent():
    """Pairs of draws of one example, of two examples, and of two seeds."""
    tree = build("two_level_7")
    problem = problem_on(tree)
    problem = problem.replace(inputs=np.repeat(problem.inputs, 1000, 0))
    probs = class_probs(tree, problem)[0]
    draws, of_next_seed, of_pair = (
        sample(*arguments_of(problem), tree, 200, seed=seed).numpy()
        for seed in (7, 8, (7, 1))
    )
    for one, other in [
        (draws[:, :-1], draws[:, 1:]),
        (draws[:, :-2], draws[:, 2:]),
        (draws[:-1], draws[1:]),
        (draws, of_next_seed),
        (draws, of_pair),
        (draws[:-1], of_next_seed[1:]),
    ]:
        joint = np.outer(probs, probs).ravel()
        assert is_drawn_from(7 * one + other, joint)
        assert p_value(7 * one + one, joint) < LEAST
    means = draws.mean(1)
    spread = draws.std() / np.sqrt(200)
    assert abs(np.std(means) / spread - 1) < 0.1


def test_seeds():
    """The same one, however it is given, and the draws are the same."""
    arguments = *arguments_of(problem_on(HUFFMAN, 4)), HUFFMAN, 50

    def draw(seed):
        return sample(*arguments, seed=seed).numpy()

    same = [5, (5, 0), np.int32(5), tf.constant([5, 0]), tf.constant(5)]
    for seed in same:
        np.testing.assert_array_equal(draw(seed), draw(5))
    # One of them from the graph, as a step is.
    traced = tf.function(lambda step: sample(*arguments, seed=[step, 0]))
    np.testing.assert_array_equal(traced(tf.constant(5)), draw(5))
    others = [draw(s).tobytes() for s in (5, 6, -5, 5 + 2**32, (5, 1), (0, 5))]
    others += [draw(s).tobytes() for s in (-(2**63), 2**63 - 1, (5, 2**32))]
    assert len(set(others)) == len(others)


def test_no_seed():
    """Other draws at each call, but those of the global seed."""
    problem = problem_on(HUFFMAN, 4)
    variable = tf.Variable(problem.weights)

    def draw():
        return sample(variable, None, problem.inputs, HUFFMAN, 50)

    for function in (draw, tf.function(draw)):
        runs = []
        for _ in range(2):
            tf.random.set_seed(3)
            if function is not draw:
                function = tf.function(draw)
            runs.append([function().numpy().tobytes() for _ in range(3)])
        assert runs[0] == runs[1]
        assert len(set(runs[0])) == 3


@pytest.mark.parametrize("options", [{}, {"top_k": 20}, {"top_p": 0.8}])
def test_other_examples_do_not_matter(options):
    """Draw s of example e is number e * num_samples + s, and that counts."""
    problem = problem_on(HUFFMAN, 9)
    weights, biases, inputs = arguments_of(problem)
    draw = functools.partial(sample, weights, biases, seed=1, **options)
    want = draw(inputs, HUFFMAN, 30).numpy()
    np.testing.assert_array_equal(draw(inputs[:4], HUFFMAN, 30), want[:4])
    np.testing.assert_array_equal(draw(inputs[0], HUFFMAN, 12), want[0, :12])
    changed = np.where(np.arange(9)[:, np.newaxis] == 5, inputs, 3 - inputs)
    np.testing.assert_array_equal(draw(changed, HUFFMAN, 30)[5], want[5])
    for index in (0, 100, 30 * 9 - 1):
        first = np.repeat(inputs[[index // 30]], index + 1, 0)
        found = draw(first, HUFFMAN, 1)[index, 0]
        assert found == want[index // 30, index % 30]


def restricted(probs, temperature, top_k=None, top_p=None):
    """The shares of classes: tempered, the k best, and the nucleus of these."""
    with np.errstate(divide="ignore"):
        order = reference.ranking(np.log(probs))[:top_k]
    shares = np.zeros_like(probs)
    shares[order] = probs[order] ** (1 / temperature)
    shares /= shares.sum()
    if top_p is not None:
        sums = np.cumsum(shares[order])
        # The reference is not exact: nothing may hang on its rounding.
        assert abs(sums - top_p).min() > 1e-7
        shares[order[1 + np.searchsorted(sums, top_p) :]] = 0
    return shares / shares.sum()


@pytest.mark.parametrize(
    "name, dtype, options, temperature, is_masked",
    all_pairs(
        NAMES,
        [np.float32, np.float64],
        [
            {},
            {"top_k": 7},
            {"top_p": 0.6},
            {"top_k": 7, "top_p": 0.6},
            {"top_k": 30, "top_p": 0.3},
            {"top_k": "all"},
            {"top_p": 0.999},
        ],
        [1.0, 0.6, 3.0],
        [False, True],
    ),
)
def test_every_tree(name, dtype, options, temperature, is_masked):
    """Exactly the best classes that are allowed, by p ** (1 / temperature).

    Without a restriction the temperature divides all weights and biases.
    """
    tree = build(name)
    n = tree.num_classes
    if "top_k" in options:
        limit = n if options["top_k"] == "all" else min(options["top_k"], n)
        options = {**options, "top_k": limit}
    problem = problem_on(tree, 3, dtype)
    mask, given, starts = np.ones([3, n], bool), dict(options), None
    if is_masked:
        mask = masks.random_mask(tree, 0.5, 3)
        mask[:, 0] = True
        given["allowed"] = masks.padded(mask)
    if name in FORESTS:
        starts = references.random_starts(tree, 3, dtype)
        given["root_log_probs"] = starts
    draw = functools.partial(
        sample,
        *arguments_of(problem),
        tree,
        20_000,
        seed=2,
        temperature=temperature,
    )
    draws = draw(**given).numpy()
    if starts is not None:
        # Whatever the roots' sum is.
        again = draw(**{**given, "root_log_probs": starts + 4})
        assert (draws == again.numpy()).mean() > 0.999
    is_restricted = options or is_masked
    if not is_restricted and temperature != 1:
        problem = problem.replace(
            weights=(problem.weights / temperature).astype(np.float64),
            biases=(problem.biases / temperature).astype(np.float64),
        )
    for i, probs in enumerate(class_probs(tree, problem, starts)):
        probs = probs * mask[i] / probs[mask[i]].sum()
        if is_restricted:
            probs = restricted(probs, temperature, **options)
        if np.count_nonzero(probs) > 1:
            assert is_drawn_from(draws[i], probs)
        is_drawn = np.bincount(draws[i], minlength=n) > 0
        assert is_drawn[probs > 1e-3].all() and not is_drawn[probs == 0].any()


def test_ties():
    """`top_k` and `top_p` keep the first ones of equal classes."""
    tree = build("binary_64")
    weights, inputs = np.zeros([tree.num_rows, 1]), np.ones([1])
    for options, count in [
        ({"top_k": 5}, 5),
        ({"top_p": 0.24}, 16),
        ({"top_p": 0.26}, 17),
        ({"top_k": 3, "top_p": 0.5}, 2),
        ({"top_k": 50, "top_p": 0.09}, 5),
        ({"top_p": 0.26, "temperature": 3.0}, 17),
        ({"top_k": 64}, 64),
    ]:
        draws = sample(weights, None, inputs, tree, 2_000, seed=1, **options)
        np.testing.assert_array_equal(np.unique(draws), np.arange(count))


@pytest.mark.parametrize(
    "name, dtype",
    [(name, DTYPES[i % 4]) for i, name in enumerate(trees.CATALOGUE)],
)
def test_the_ends_of_the_restrictions(name, dtype):
    tree = build(name)
    arguments = arguments_of(problem_on(tree, 5, dtype))
    draw = functools.partial(sample, *arguments, tree, 20, seed=1)
    best = tf_hsm.hierarchical_softmax_top_k(*arguments, tree, 1).classes
    best = np.tile(best, (1, 20))
    for options in ({"top_k": 1}, {"top_p": 1e-9}, {"temperature": 0}):
        np.testing.assert_array_equal(draw(**options), best)
    options = {"temperature": tf.constant(0.0), "top_p": 0.9}
    np.testing.assert_array_equal(draw(**options), best)
    np.testing.assert_array_equal(draw(top_k=1, top_p=0.9), best)
    np.testing.assert_array_equal(draw(top_p=1.0), draw())
    np.testing.assert_array_equal(
        draw(top_k=tree.num_classes, temperature=1e-6), best
    )
    # Options too small for float32, of what is allowed.
    some = np.arange(0, tree.num_classes, 2)
    best = tf_hsm.hierarchical_softmax_top_k(
        *arguments, tree, 1, allowed=some
    ).classes
    for option in (
        {"top_p": 1e-46},
        {"temperature": 1e-40},
        {"temperature": 0.0},
        {"top_k": 1},
    ):
        np.testing.assert_array_equal(
            draw(allowed=some, **option), np.tile(best, (1, 20))
        )


@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_roots_without_a_probability(dtype):
    """Nothing is drawn, and the others draw what they drew."""
    name = next(iter(FORESTS))
    tree = build(name)
    problem = problem_on(tree, 4, dtype)
    starts = references.random_starts(tree, 4, dtype)
    dead = starts.copy()
    dead[1], dead[2] = -np.inf, np.nan
    draw = functools.partial(sample, *arguments_of(problem), tree, 30, seed=1)
    for options in (
        {},
        {"top_k": 2},
        {"top_p": 0.5},
        {"top_k": 2, "top_p": 0.5},
        {"top_p": 0.5, "temperature": 0.7},
        {"temperature": 0.0},
    ):
        found = draw(root_log_probs=dead, **options).numpy()
        assert (found[1:3] == -1).all()
        wanted = draw(root_log_probs=starts, **options).numpy()
        np.testing.assert_array_equal(found[[0, 3]], wanted[[0, 3]])


def test_a_share_of_many_classes():
    """A share of 1,024 classes at a temperature; of all at 1 or `allowed`."""
    tree = tf_hsm.Tree.flat(3_000)
    weights, inputs = np.zeros([tree.num_rows, 1]), np.ones([1])
    draw = functools.partial(
        sample, weights, None, inputs, tree, 20_000, seed=1, top_p=0.5
    )
    for options, count in [
        ({}, 1_500),
        ({"temperature": 2.0}, 512),
        ({"temperature": 2.0, "top_k": 3_000}, 1_500),
        ({"temperature": 2.0, "allowed": np.arange(3_000)}, 1_500),
    ]:
        assert draw(**options).numpy().max() + 1 == pytest.approx(count, abs=2)


def test_top_p_keeps_its_digits():
    """It is not rounded to float32 on its way."""
    tree = tf_hsm.Tree.balanced(2, 2)
    weights = np.log([[0.6 + 1e-9], [0.4 - 1e-9]])
    assert float(np.float32(0.6)) > 0.6 + 1e-9
    draws = sample(weights, None, [1.0], tree, 100, seed=1, top_p=0.6)
    assert not draws.numpy().any()


@pytest.mark.parametrize("temperature", [1e-60, 1e-39, 1e39, 1e60])
@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_temperatures_beyond_float32(dtype, temperature):
    """At their ends the best child of each node, or any of them."""
    tree = tf_hsm.Tree.balanced(4, 4)
    weights = np.array([[0], [2], [1], [-1]], dtype)
    draws = sample(
        weights, None, [1.0], tree, 100, seed=1, temperature=temperature
    ).numpy()
    want = [1] if temperature < 1 else [0, 1, 2, 3]
    np.testing.assert_array_equal(np.unique(draws), want)
