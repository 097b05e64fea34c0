"""Answers among allowed classes, against brute force for random masks."""

import functools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import forests, masks, trees
from tests.support import inference_reference as reference

top_k = tf_hsm.hierarchical_softmax_top_k
log_prob = tf_hsm.hierarchical_softmax_log_prob
sample = tf_hsm.hierarchical_softmax_sample

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]

build = functools.cache(lambda name: trees.CATALOGUE[name]())


@pytest.mark.parametrize("name, dtype", trees.typed(DTYPES))
def test_top_k(name, dtype):
    """Shared and of each example, few classes to all, tensors and variables."""
    tree = build(name)
    arguments = masks.random_arguments(tree, dtype=dtype)
    variables = [tf.Variable(a) for a in arguments[:2]]
    for chance, lists in [
        (0.0, 1),
        (0.05, masks.BATCH),
        (0.5, 1),
        (1.0, masks.BATCH),
    ]:
        mask = masks.random_mask(tree, chance, lists)
        values = masks.wanted(tree, arguments, mask)
        classes = masks.lists_of(mask)
        for k in sorted({1, min(5, tree.num_classes)}):
            found = top_k(*arguments, tree, k, allowed=classes)
            masks.check(found, values, mask, k, exact=True)
        k = tree.num_classes
        found = top_k(*variables, arguments[2], tree, k, allowed=classes)
        masks.check(found, values, mask, k, exact=True)


@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_renormalized(name):
    """Those of all allowed classes then have the sum 1."""
    tree = build(name)
    arguments = masks.random_arguments(tree)
    for lists in (1, masks.BATCH):
        mask = masks.random_mask(tree, 0.4, lists)
        values = masks.wanted(tree, arguments, mask, renormalize=True)
        classes = masks.lists_of(mask)
        for k in sorted({1, tree.num_classes}):
            found = top_k(
                *arguments, tree, k, allowed=classes, renormalize=True
            )
            masks.check(found, values, mask, k, exact=False)
        sums = np.exp(found.log_probs).sum(1)
        np.testing.assert_allclose(
            sums, np.broadcast_to(mask.any(1), [masks.BATCH]), rtol=1e-5
        )


@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_log_prob(name, renormalize):
    tree = build(name)
    weights, biases, x = masks.random_arguments(tree)
    asked = np.random.default_rng(2).integers(
        tree.num_classes, size=[masks.BATCH, 9]
    )
    for lists in (1, masks.BATCH):
        mask = masks.random_mask(tree, 0.4, lists)
        values = masks.wanted(tree, (weights, biases, x), mask, renormalize)
        classes = masks.lists_of(mask)
        found = log_prob(
            weights,
            biases,
            asked,
            x,
            tree,
            allowed=classes,
            renormalize=renormalize,
        )
        np.testing.assert_allclose(
            found,
            np.take_along_axis(values, asked, -1),
            rtol=1e-4,
            atol=1e-4,
        )


@pytest.mark.parametrize("options", [{}, {"temperature": 2.0}, {"top_k": 4}])
@pytest.mark.parametrize("name", ["huffman_4ary", "two_level_100", "chain_50"])
def test_draws(name, options):
    """By the probabilities given that a class is allowed, and by no others."""
    tree = build(name)
    arguments = masks.random_arguments(tree, batch=3)
    arguments = [0.5 * a for a in arguments[:2]] + [arguments[2]]
    mask = masks.random_mask(tree, 0.3, 3)
    draws = sample(
        *arguments, tree, 40_000, seed=5, allowed=masks.padded(mask), **options
    ).numpy()
    for i, row in enumerate(masks.wanted(tree, arguments, mask)):
        row = row / options.get("temperature", 1)
        if "top_k" in options:
            row[reference.ranking(row)[4:]] = -np.inf
        probs = np.exp(row - row.max())
        probs /= probs.sum()
        assert 1e-4 < reference.p_value(draws[i], probs) < 1 - 1e-4


def test_draws_of_a_share():
    """`top_p` is a share of what is allowed."""
    arguments = masks.random_arguments(masks.TREE, batch=4)
    mask = masks.random_mask(masks.TREE, 0.3, 1)
    draws = sample(
        *arguments, masks.TREE, 3000, seed=1, top_p=0.7, allowed=mask[0]
    ).numpy()
    for i, row in enumerate(
        np.exp(masks.wanted(masks.TREE, arguments, mask, True))
    ):
        order = np.argsort(-row)
        count = np.searchsorted(np.cumsum(row[order]), 0.7) + 1
        assert set(draws[i]) == set(order[:count])


def test_draws_of_a_seed():
    arguments = masks.random_arguments(masks.TREE)
    allowed = [3, 9, 27, 50]
    one, two, other = (
        sample(*arguments, masks.TREE, 50, seed=seed, allowed=allowed).numpy()
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, two)
    assert (one != other).any() and set(one.ravel()) <= set(allowed)
    nothing = np.zeros(0, int)
    drawn = sample(*arguments, masks.TREE, 3, seed=1, allowed=nothing)
    np.testing.assert_array_equal(drawn, np.full([masks.BATCH, 3], -1))


@pytest.mark.parametrize("beam_width", [1, 3, 60])
def test_beams_and_bounds(beam_width):
    arguments = masks.random_arguments(masks.TREE)
    mask = masks.random_mask(masks.TREE, 0.3, masks.BATCH)
    values = masks.wanted(masks.TREE, arguments, mask)
    beam = top_k(
        *arguments,
        masks.TREE,
        4,
        beam_width=beam_width,
        return_pruned=True,
        allowed=masks.padded(mask),
    )
    is_exact = beam.num_pruned.numpy() == 0
    assert is_exact.all() or beam_width < 60
    best = reference.ranking(values)[:, :4]
    np.testing.assert_array_equal(beam.classes[is_exact], best[is_exact])
    assert np.take_along_axis(mask, beam.classes.numpy(), -1).all()
    bounds = np.take_along_axis(values, best[:, 2:3], -1)[:, 0]
    found = top_k(
        *arguments, masks.TREE, 4, bounds=bounds, allowed=masks.padded(mask)
    )
    best[:, 3] = -1
    np.testing.assert_array_equal(found.classes, best)


@pytest.mark.parametrize("name", forests.TREES)
def test_forests(name):
    """With the log-probabilities of the roots."""
    tree = forests.TREES[name]()
    forest = forests.cut(tree, forests.some_rows(tree, 1)).forest
    weights, biases, x = masks.random_arguments(forest)
    rng = np.random.default_rng(0)
    starts = rng.normal(size=[masks.BATCH, forest.num_roots]).astype("f4") - 2
    log_probs = tf_hsm.hierarchical_softmax_log_probs(
        weights, biases, x, forest, root_log_probs=starts
    )
    for chance in (0.1, 0.5):
        mask = masks.random_mask(forest, chance, masks.BATCH)
        mask[:, 0] = True
        options = {"root_log_probs": starts, "allowed": masks.padded(mask)}
        for renormalize in (False, True):
            values = np.stack(
                [
                    masks.masked(*pair, renormalize)
                    for pair in zip(log_probs.numpy(), mask, strict=True)
                ]
            )
            found = top_k(
                weights,
                biases,
                x,
                forest,
                forest.num_classes,
                renormalize=renormalize,
                **options,
            )
            masks.check(
                found, values, mask, forest.num_classes, exact=not renormalize
            )
        drawn = sample(weights, biases, x, forest, 50, seed=1, **options)
        assert np.take_along_axis(mask, drawn.numpy(), -1).all()


def test_probabilities_of_zero_and_nan():
    """Allowed classes of zero come last; NaN counts as zero."""
    tree = tf_hsm.Tree.two_level(60)
    weights, biases, x = masks.random_arguments(tree)
    # Class 4 has no probability, nor has any of the group of class 59.
    biases[tree.class_rows[4]] = -np.inf
    biases[tree.class_rows[59]] = np.nan
    found = top_k(weights, biases, x, tree, 3, allowed=[4, 30])
    np.testing.assert_array_equal(found.classes, [[30, 4, -1]] * masks.BATCH)
    found = top_k(weights, biases, x, tree, 2, allowed=[4], renormalize=True)
    np.testing.assert_array_equal(
        found.log_probs, [[-np.inf] * 2] * masks.BATCH
    )
    for classes, drawn in (
        ([4], -1),
        ([58], -1),
        ([4, 30], 30),
        ([58, 30], 30),
    ):
        found = sample(weights, biases, x, tree, 2, seed=1, allowed=classes)
        np.testing.assert_array_equal(found, [[drawn] * 2] * masks.BATCH)


@pytest.mark.parametrize(
    "options", [{"top_p": 1e-46}, {"temperature": 1e-40}, {"top_k": 1}]
)
def test_draws_of_the_best(options):
    """Options too small for float32 draw the best class, as top_k=1 does."""
    arguments = masks.random_arguments(masks.TREE)
    allowed = [4, 30, 41]
    best = top_k(*arguments, masks.TREE, 1, allowed=allowed).classes
    drawn = sample(
        *arguments, masks.TREE, 5, seed=1, allowed=allowed, **options
    )
    np.testing.assert_array_equal(drawn, np.repeat(best, 5, axis=1))
