"""Losses and steps on pinned trees: a row of weights per group of two rows."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import pinned, training
from tests.support.evaluation import assert_within, check_loss, dense, evaluate
from tests.support.pairs import all_pairs
from tests.support.pinned import TREE, build
from tests.support.update_rules import OPTIMIZERS, built

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
# One block of examples and several; widths that no vector divides.
SHAPES = [(5, 3), (130, 33)]


def test_the_loss_is_that_of_sigmoids():
    """The formula of word2vec, by hand: a path of signs."""
    problem = pinned.random_problem(TREE, 9, 5, np.float64)
    losses = tf_hsm.hierarchical_softmax_loss(
        problem.weights, problem.biases, problem.labels, problem.inputs, TREE
    )
    for label, x, loss in zip(
        problem.labels, problem.inputs, losses.numpy(), strict=True
    ):
        path = TREE.path(label)
        sign = 1 - 2 * (path % 2)
        delta = problem.weights[path // 2] @ x + problem.biases[path // 2]
        want = np.log1p(np.exp(-sign * delta)).sum()
        np.testing.assert_allclose(loss, want, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", pinned.TREES)
def test_loss_and_gradients(name, dtype):
    tree = build(name)
    for i, (shape, share) in enumerate(
        [(SHAPES[0], 0.0), (SHAPES[1], 0.0), (SHAPES[1], 0.25)]
    ):
        problem = pinned.random_problem(tree, *shape, dtype, seed=i)
        problem = problem.replace(label_smoothing=share)
        if i == 0:
            problem = problem.replace(biases=None)
        check_loss(tree, problem)


def test_in_a_graph():
    problem = pinned.random_problem(TREE, 12, 7)
    result = evaluate(
        tf_hsm.hierarchical_softmax_loss, TREE, problem, graph=True
    )
    expected, bound = pinned.hierarchical_softmax(TREE, problem)
    assert_within(dense(result), expected, bound)


@pytest.mark.parametrize("batch", [40, 3000])
def test_wide_rows_of_a_large_gradient(batch):
    """Where the backward makes the probabilities again, and streams."""
    tree = tf_hsm.Tree.balanced(500, 2).pin()
    problem = pinned.random_problem(tree, batch, 40)
    expected, bound = pinned.hierarchical_softmax(tree, problem)
    result = evaluate(tf_hsm.hierarchical_softmax_loss, tree, problem)
    assert_within(dense(result), expected, bound)


@pytest.mark.parametrize(
    "name, rule, dtype", all_pairs(list(pinned.TREES), list(OPTIMIZERS), DTYPES)
)
def test_two_train_steps(rule, name, dtype):
    for shape, share in zip(SHAPES, (0.25, 0.0), strict=True):
        training.check_steps(rule, build(name), shape, dtype, share > 0, share)


@pytest.mark.parametrize(
    "rule, dtype, name",
    all_pairs(list(OPTIMIZERS), DTYPES[:3], ["huffman_203", "chain_50"]),
)
def test_an_embedding_step_is_three_ops(rule, name, dtype):
    """A look-up, a train step and an update, for skip-gram and CBOW."""
    tree = build(name)
    batch, count, width = 130, 29, 20
    problem = training.wide_problem(tree, (batch, width), dtype)
    rng = np.random.default_rng(0)
    pairs = rng.integers(count, size=[batch, 2])
    for bags in (pairs[:, 0], tf.RaggedTensor.from_tensor(pairs)):
        start = rng.normal(size=[count, width]).astype(dtype) / 4
        one = [*training.variables_of(problem, dtype), tf.Variable(start)]
        three = [*training.variables_of(problem, dtype), tf.Variable(start)]
        optimizer = built(rule, one)
        losses = tf_hsm.hierarchical_softmax_embedding_train_step(
            *one[:2],
            problem.labels,
            one[2],
            bags,
            tree,
            optimizer,
            loss_weights=problem.upstream,
            stochastic_rounding=False,
        )
        gathered = tf.cast(tf.gather(three[2], bags), problem.inputs.dtype)
        inputs = gathered
        if isinstance(bags, tf.RaggedTensor):
            inputs = tf.reduce_mean(gathered, 1)
        of_tree, of_vectors = built(rule, three[:2]), built(rule, three[2:])
        wanted, dx = training.in_place(
            three[:2],
            problem.replace(inputs=inputs),
            tree,
            of_tree,
            stochastic_rounding=False,
        )
        if isinstance(bags, tf.RaggedTensor):
            dx = tf.repeat(dx / 2, 2, axis=0)
            bags = bags.flat_values
        of_vectors.apply([tf.IndexedSlices(dx, bags)], three[2:])
        tolerance = {np.float64: 1e-9, np.float32: 3e-4}.get(dtype, 2e-2)
        for got, want in zip([losses, *one], [wanted, *three], strict=True):
            np.testing.assert_allclose(
                tf.cast(got, tf.float64),
                tf.cast(want, tf.float64),
                rtol=tolerance,
                atol=tolerance,
            )


def test_a_step_rounds_at_random():
    """The mean of many weights moves as in float32, by less than a unit."""
    tree = tf_hsm.Tree.balanced(2, 2).pin()
    w = tf.Variable(tf.ones([1, 4000], tf.bfloat16))
    optimizer = built("sgd", [w], rate=1.0)
    tf_hsm.hierarchical_softmax_train_step(
        w, None, [1], tf.ones([1, 4000]), tree, optimizer, loss_weights=2e-3
    )
    # dz_0 of the second row's label is 1 where row 0 had all probability.
    np.testing.assert_allclose(
        np.mean(w.numpy(), dtype=float), 0.998, atol=2e-4
    )


def test_labels_at_nodes():
    """The loss of a node, and a step by it."""
    problem = training.wide_problem(TREE, (40, 9), np.float32)
    nodes = np.random.default_rng(0).integers(TREE.num_rows, size=40)
    variables = training.variables_of(problem)
    of_nodes = tf_hsm.hierarchical_softmax_log_probs(
        *variables, problem.inputs, TREE, nodes=True
    ).numpy()
    want = -of_nodes[np.arange(40), nodes]
    losses = tf_hsm.hierarchical_softmax_loss(
        *variables, nodes, problem.inputs, TREE, nodes=True
    )
    np.testing.assert_allclose(losses, want, rtol=1e-5)
    with tf.GradientTape() as tape:
        losses = tf_hsm.hierarchical_softmax_loss(
            *variables, nodes, problem.inputs, TREE, nodes=True
        )
        total = tf.reduce_sum(losses * problem.upstream)
    gradients = tape.gradient(total, variables)
    moved = [
        v.numpy() - 0.3 * tf.convert_to_tensor(g).numpy()
        for v, g in zip(variables, gradients, strict=True)
    ]
    losses, _ = training.in_place(
        variables,
        problem.replace(labels=nodes),
        TREE,
        built("sgd", variables),
        nodes=True,
    )
    np.testing.assert_allclose(losses, want, rtol=1e-5)
    for variable, wanted in zip(variables, moved, strict=True):
        np.testing.assert_allclose(variable, wanted, atol=1e-5)


def test_sgd_at_twice_the_rate_is_that_of_both_rows():
    """The difference of two rows that move apart, step after step."""
    tree = build("huffman_203")
    problem = training.wide_problem(tree, (130, 9), np.float64)
    one = training.variables_of(problem)
    two = training.variables_of(pinned.expanded(problem))
    of_one, of_two = built("sgd", one, rate=0.4), built("sgd", two, rate=0.2)
    for seed in range(3):
        drawn = training.wide_problem(tree, (130, 9), np.float64, seed)
        losses, dx = training.in_place(one, drawn, tree, of_one)
        wanted, wanted_dx = training.in_place(two, drawn, tree.expand(), of_two)
        np.testing.assert_allclose(losses, wanted, rtol=1e-12)
        np.testing.assert_allclose(dx, wanted_dx, rtol=1e-9, atol=1e-12)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b[::2] - b[1::2], atol=1e-12)
