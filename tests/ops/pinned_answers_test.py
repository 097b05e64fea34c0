"""Log-probabilities, best classes and draws of pinned trees."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import inference_reference as reference
from tests.support import pinned
from tests.support.pinned import build

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
# One block of examples and several; widths that no vector divides.
SHAPES = [(5, 3), (130, 33)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", pinned.TREES)
def test_log_probs(name, dtype):
    """Log-probabilities of all and given nodes and classes, with gradients."""
    tree = build(name)
    for i, (batch, dim) in enumerate(SHAPES):
        problem = pinned.random_problem(tree, batch, dim, dtype)
        if i == 0:
            problem = problem.replace(biases=None)
        arguments = problem.weights, problem.biases, problem.inputs, tree
        want, bound = reference.node_log_probs(tree, pinned.expanded(problem))
        got = tf_hsm.hierarchical_softmax_log_probs(*arguments, nodes=True)
        reference.assert_near(got, want, bound, "nodes")
        of_classes = tf_hsm.hierarchical_softmax_log_probs(*arguments)
        np.testing.assert_array_equal(
            of_classes, reference.by_class(tree, got.numpy())
        )
        rng = np.random.default_rng(0)
        for nodes, size in ((False, tree.num_classes), (True, tree.num_rows)):
            given = rng.integers(size, size=(batch, 4))
            log_prob = tf_hsm.hierarchical_softmax_log_prob(
                problem.weights,
                problem.biases,
                given,
                problem.inputs,
                tree,
                nodes=nodes,
            )
            rows = given if nodes else tree.class_rows[given]
            np.testing.assert_array_equal(
                log_prob, np.take_along_axis(got.numpy(), rows, 1)
            )


@pytest.mark.parametrize("nodes", [False, True])
@pytest.mark.parametrize("name", pinned.TREES)
def test_gradients_of_log_probs(name, nodes):
    tree = build(name)
    problem = pinned.random_problem(tree, 9, 33)
    sources = [
        tf.constant(x)
        for x in (problem.weights, problem.biases, problem.inputs)
    ]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        log_probs = tf_hsm.hierarchical_softmax_log_probs(
            *sources, tree, nodes=nodes
        )
    rng = np.random.default_rng(0)
    upstream = rng.normal(size=log_probs.shape).astype(np.float32)
    dw, db, dx = tape.gradient(log_probs, sources, output_gradients=upstream)
    of_rows = upstream if nodes else reference.by_row(tree, upstream)
    want, bound = pinned.log_prob_gradients(tree, problem, of_rows)
    for got, part in ((dw, "dw"), (db, "db"), (dx, "dx")):
        reference.assert_near(
            got, getattr(want, part), getattr(bound, part), part
        )


@pytest.mark.parametrize("name", pinned.TREES)
def test_top_k(name):
    """Exact and by beams, of all classes and of some, above bounds."""
    tree = build(name)
    problem = pinned.random_problem(tree, 11, 7)
    arguments = problem.weights, problem.biases, problem.inputs, tree
    every = tf_hsm.hierarchical_softmax_log_probs(*arguments).numpy()
    k = min(5, tree.num_classes)
    best = reference.ranking(every)[:, :k]
    for options in ({}, {"beam_width": tree.num_classes}):
        found = tf_hsm.hierarchical_softmax_top_k(*arguments, k, **options)
        np.testing.assert_array_equal(found.classes, best)
        np.testing.assert_array_equal(
            found.log_probs, np.take_along_axis(every, best, 1)
        )
    of_nodes = tf_hsm.hierarchical_softmax_log_probs(*arguments, nodes=True)
    narrow = tf_hsm.hierarchical_softmax_top_k(*arguments, k, beam_width=1)
    for i, nodes in enumerate(of_nodes.numpy()):
        want, _ = reference.beam_search(tree, nodes, k, 1)
        np.testing.assert_array_equal(narrow.classes[i], want)

    allowed = np.arange(0, tree.num_classes, 2)
    masked = np.where(np.arange(tree.num_classes) % 2, -np.inf, every)
    wanted = reference.ranking(masked)[:, : min(k, len(allowed))]
    found = tf_hsm.hierarchical_softmax_top_k(*arguments, k, allowed=allowed)
    np.testing.assert_array_equal(found.classes[:, : wanted.shape[1]], wanted)
    bounds = np.sort(every, 1)[:, -2]
    found = tf_hsm.hierarchical_softmax_top_k(*arguments, k, bounds=bounds)
    np.testing.assert_array_equal(found.classes[:, :2], best[:, :2])
    assert (found.classes[:, 2:].numpy() == -1).all()


def test_draws():
    """By their probabilities, among all, the best and the allowed classes."""
    tree = build("binary_37")
    problem = pinned.random_problem(tree, 1, 6)
    arguments = problem.weights, problem.biases, problem.inputs, tree
    probs = np.exp(tf_hsm.hierarchical_softmax_log_probs(*arguments).numpy()[0])
    best = np.argsort(-probs)[:4]
    some = np.arange(0, 37, 3)
    for options, classes in (
        ({}, np.arange(37)),
        ({"top_k": 4}, best),
        ({"allowed": some}, some),
    ):
        draws = tf_hsm.hierarchical_softmax_sample(
            *arguments, 20_000, seed=5, **options
        )
        share = np.zeros(37)
        share[classes] = probs[classes] / probs[classes].sum()
        assert reference.p_value(draws.numpy(), share) > 1e-4
    one = tf_hsm.hierarchical_softmax_sample(*arguments, 50, seed=1, top_p=1e-9)
    assert (one.numpy() == best[0]).all()
