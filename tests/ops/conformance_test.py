"""Losses and steps against the NumPy oracle: one table of all that they take.

Trees, forests and pinned trees; types, shapes, labels, options.
`baselines_test` and `label_tree_test` have the losses of baselines and of label
trees.
"""

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle, references, trees
from tests.support.evaluation import (
    check_loss,
    check_random_loss,
    dense,
    evaluate,
)
from tests.support.pairs import all_pairs
from tests.support.places import HERE
from tests.support.references import NAMES, build
from tests.support.step_cases import check_steps
from tests.support.training import COUNT, after_loss, in_place
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import baselines

loss = tf_hsm.hierarchical_softmax_loss

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
# (B, D) and biases. Few examples update a group at once, many in parts.
FORMS = [
    ((1, 1), True),
    ((5, 3), False),
    ((17, 33), True),
    ((67, 129), True),
    ((252, 50), True),
]
# Shares of label smoothing, and whether it is towards a prior.
SMOOTHED = [(0.0, False), (0.25, False), (0.25, True), (1.0, True)]
WAYS = {"in place": in_place, "from a state": after_loss, "looked up": None}


def random_problem(tree, shape, dtype, *smoothed):
    """A problem whose shape is its seed."""
    return references.random_problem(tree, *shape, dtype, sum(shape), *smoothed)


@pytest.mark.parametrize(
    "name, dtype, form, smoothed, nodes, graph, ignore_class",
    all_pairs(
        NAMES,
        DTYPES,
        FORMS,
        SMOOTHED,
        [False, True],
        [False, True],
        [None, -1, 3, [-1, 3], (7, -(2**31), 2**31 - 1), []],
    ),
)
def test_ops(name, dtype, form, smoothed, nodes, graph, ignore_class):
    shape, has_biases = form
    check_random_loss(
        HERE,
        name,
        shape,
        dtype,
        smoothed,
        has_biases=has_biases,
        nodes=nodes,
        graph=graph,
        ignore_class=ignore_class,
    )


@pytest.mark.parametrize(
    "dtype, form, options, graph",
    all_pairs(
        DTYPES,
        FORMS,
        [
            {"logit_soft_cap": 2.0},
            {"z_loss": 0.25},
            {"logit_soft_cap": 1.5, "z_loss": 0.125},
        ],
        [False, True],
    ),
)
def test_soft_caps_and_z_losses(dtype, form, options, graph):
    shape, has_biases = form
    options = {"has_biases": has_biases, "graph": graph, **options}
    check_random_loss(HERE, "flat", shape, dtype, **options)


@pytest.mark.parametrize(
    "nodes, dtype", list(zip([False, True] * 2, DTYPES, strict=True))
)
def test_a_chain_of_10000_levels(nodes, dtype):
    check_random_loss(HERE, "chain_10000", (3, 5), dtype, nodes=nodes)


@pytest.mark.parametrize(
    "leading_shape, graph, has_biases",
    all_pairs([[], [6], [2, 3], [0], [3, 0]], [False, True], [True, False]),
)
def test_leading_shapes(leading_shape, graph, has_biases):
    check_random_loss(
        HERE,
        "random",
        (int(np.prod(leading_shape)), 7),
        np.float64,
        has_biases=has_biases,
        graph=graph,
        leading_shape=leading_shape,
    )


@pytest.mark.parametrize("scale", [100.0, 1e4])
@pytest.mark.parametrize("name", ["two_level_100", "huffman_2ary"])
def test_large_logits(name, scale):
    problem = random_problem(build(name), (20, 9), np.float32)
    check_loss(
        build(name),
        problem.replace(weights=np.float32(scale) * problem.weights),
    )


@pytest.mark.parametrize("batch", [40, 3000])
@pytest.mark.parametrize(
    "make, smoothed",
    [
        (lambda: tf_hsm.Tree.balanced(900, [3, 300]), (0.25, True)),
        (lambda: tf_hsm.Tree.balanced(500, 2).pin(), (0.0, False)),
    ],
)
def test_wide_rows_of_a_large_gradient(make, smoothed, batch):
    """Where the backward makes the probabilities again, and streams."""
    tree = make()
    problem = random_problem(tree, (batch, 40), np.float32, smoothed)
    check_loss(tree, problem, [tf.Variable])


@pytest.mark.parametrize("name", trees.KINDS)
def test_float32_loss_is_that_of_gather_to_1e_5(name):
    problem = random_problem(build(name), (67, 129), np.float32)
    arguments = (
        problem.weights,
        problem.biases,
        problem.labels,
        problem.inputs,
        build(name),
    )
    gather = baselines.gather_loss(*arguments).numpy()
    error = np.linalg.norm(loss(*arguments).numpy() - gather)
    # Relative to the norm: a loss near 0 is a difference of larger logits.
    assert error <= 1e-5 * np.linalg.norm(gather)


@pytest.mark.parametrize(
    "name, argument, smoothed",
    all_pairs(
        ["two_level_7", "random", "chain_50", "single_class", "below ragged"],
        ["inputs", "weights", "biases"],
        SMOOTHED,
    ),
)
def test_finite_differences(name, argument, smoothed):
    tree = build(name)
    problem = random_problem(tree, (4, 3), np.float64, smoothed)
    gradients = dense(evaluate(loss, tree, problem))
    field = {"inputs": "dx", "weights": "dw", "biases": "db"}[argument]
    analytic = getattr(gradients, field)

    options = {
        "label_smoothing": problem.label_smoothing,
        "smoothing_prior": problem.smoothing_prior,
    }

    def total(array):
        at = problem.replace(**{argument: array})
        given = at.weights, at.biases, at.labels, at.inputs, tree
        return loss(*given, **options).numpy() @ at.upstream

    numeric = oracle.finite_differences(total, getattr(problem, argument))
    error = np.linalg.norm(numeric - analytic)
    # The gradient of a single class is zero: nothing to be relative to.
    assert error <= 1e-6 * np.linalg.norm(analytic)


@pytest.mark.parametrize("to_prior", [False, True])
def test_one_smoothed_group_is_keras_categorical_crossentropy(to_prior):
    tree = tf_hsm.Tree.balanced(30, [30])
    problem = random_problem(tree, (9, 5), np.float32, (0.25, to_prior))
    shares = np.full(30, 1 / 30)
    if to_prior:
        shares = np.arange(30) / np.arange(30).sum()
        problem = problem.replace(smoothing_prior=tree.row_shares(shares))
    logits = problem.inputs @ problem.weights.T + problem.biases
    want = keras.losses.categorical_crossentropy(
        0.75 * np.eye(30)[problem.labels] + 0.25 * shares,
        logits[:, tree.class_rows],
        from_logits=True,
    )
    losses = evaluate(loss, tree, problem).loss
    np.testing.assert_allclose(losses, want, rtol=1e-5)


def test_the_loss_of_a_pinned_tree_is_that_of_sigmoids():
    """The formula of word2vec, by hand: a path of signs."""
    tree = build("pinned huffman_203")
    problem = random_problem(tree, (9, 5), np.float64)
    losses = evaluate(loss, tree, problem).loss.numpy()
    for label, x, found in zip(
        problem.labels, problem.inputs, losses, strict=True
    ):
        path = tree.path(label)
        sign = 1 - 2 * (path % 2)
        delta = problem.weights[path // 2] @ x + problem.biases[path // 2]
        want = np.log1p(np.exp(-sign * delta)).sum()
        np.testing.assert_allclose(found, want, rtol=1e-12)


@pytest.mark.parametrize(
    "name, rule, dtype, way, form, smoothed, nodes, not_decayed, ignore_class",
    all_pairs(
        NAMES,
        list(OPTIMIZERS),
        DTYPES,
        list(WAYS),
        [((5, 3), True), ((67, 33), True), ((67, 33), False)],
        SMOOTHED,
        [False, True],
        [None, [], ["weights"], ["biases"], ["weights", "vectors"]],
        [(), -1, 7, [7, -3]],
    ),
)
def test_two_steps(
    name,
    rule,
    dtype,
    way,
    form,
    smoothed,
    nodes,
    not_decayed,
    ignore_class,
):
    shape, has_biases = form
    check_steps(
        HERE,
        rule,
        name,
        shape,
        dtype,
        has_biases,
        WAYS[way],
        label_smoothing=smoothed[0],
        to_prior=smoothed[1],
        nodes=nodes,
        not_decayed=not_decayed,
        ignore_class=ignore_class,
        count=COUNT if way == "looked up" else None,
    )


@pytest.mark.parametrize(
    "rule, dtype, way, cap, z_loss",
    all_pairs(
        list(OPTIMIZERS),
        DTYPES,
        ["in place", "from a state"],
        [None, 1.5],
        [0.0, 0.25],
    ),
)
def test_two_steps_of_soft_caps_and_z_losses(rule, dtype, way, cap, z_loss):
    options = {"logit_soft_cap": cap, "z_loss": z_loss}
    given = HERE, rule, "flat", (40, 17), dtype, True, WAYS[way]
    check_steps(*given, **options)


@pytest.mark.parametrize(
    "rule, dtype, count",
    all_pairs(list(OPTIMIZERS), DTYPES[:3], [COUNT, 800]),
)
def test_look_ups_of_many_examples(rule, dtype, count):
    """Vectors of several work items, of two blocks each; of one, mostly."""
    tree = tf_hsm.Tree.huffman(1 / np.arange(1, 61))
    check_steps(HERE, rule, tree, (1100, 9), dtype, count=count)
