"""Label smoothing, and its priors, beyond their values.

`conformance_test` compares these with NumPy and Keras.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle
from tests.support.evaluation import dense, evaluate
from tests.support.references import build
from tests.support.training import in_place, variables_of
from tests.support.update_rules import built

loss = tf_hsm.hierarchical_softmax_loss


def smoothed(prior, share=0.25):
    """The loss function with this prior."""
    return functools.partial(loss, label_smoothing=share, smoothing_prior=prior)


def losses_of(problem, tree, prior, share=0.25):
    return smoothed(prior, share)(
        problem.weights, problem.biases, problem.labels, problem.inputs, tree
    ).numpy()


@pytest.mark.parametrize("name", ["huffman_2ary", "random", "only_children"])
def test_labels_of_the_prior_are_smoothed_as_flatly(name):
    """In the sum over all labels by their shares: see docs/math.md."""
    tree = build(name)
    prior = np.random.default_rng(1).random(tree.num_classes)
    prior[::3] = 0
    prior /= prior.sum()
    problem = oracle.random_problem(tree, 1, 4, np.float64)
    problem = problem.replace(
        labels=np.arange(tree.num_classes),
        inputs=np.tile(problem.inputs, [tree.num_classes, 1]),
    )
    shares = tree.row_shares(prior)
    on_paths = losses_of(problem, tree, shares, 1.0)
    flat = losses_of(problem, tree, None, 0.0)
    np.testing.assert_allclose(prior @ on_paths, prior @ flat, rtol=1e-6)


@pytest.mark.parametrize("to_prior", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.25, 0.9, 1.0])
def test_an_only_child_has_no_gradient(share, to_prior):
    tree = tf_hsm.Tree.from_nested([[0], [1, 2]])
    problem = oracle.random_problem(tree, 9, 4, np.float32)
    prior = tree.row_shares([1, 2, 3]) if to_prior else None
    problem = problem.replace(
        labels=np.zeros(9, int), label_smoothing=share, smoothing_prior=prior
    )
    result = dense(evaluate(loss, tree, problem))
    (child,) = tree.class_rows[:1]
    np.testing.assert_array_equal(result.dw[child], 0)
    np.testing.assert_array_equal(result.db[child], 0)
    variables = variables_of(problem)
    in_place(
        variables,
        problem,
        tree,
        built("lazy_adam", variables),
        label_smoothing=share,
        smoothing_prior=prior,
    )
    for variable, before in zip(
        variables, (problem.weights, problem.biases), strict=True
    ):
        np.testing.assert_array_equal(variable[child], before[child])


@pytest.mark.parametrize("to_prior", [False, True])
@pytest.mark.parametrize("share", [0.25, 1.0])
@pytest.mark.parametrize("fanout", [2, 3, 20])
def test_a_row_that_is_switched_off(fanout, share, to_prior):
    """It has an infinite loss in its group's mean, unless a prior omits it."""
    tree = tf_hsm.Tree.balanced(fanout, [fanout])
    problem = oracle.random_problem(tree, fanout, 4, np.float32)
    is_off = np.arange(fanout) == 1
    biases = np.where(is_off, -np.inf, problem.biases).astype(np.float32)
    problem = problem.replace(
        biases=biases,
        labels=np.arange(fanout),
        label_smoothing=share,
        smoothing_prior=tree.row_shares(1 - is_off) if to_prior else None,
    )
    result = dense(evaluate(loss, tree, problem))
    is_infinite = is_off & (share < 1) if to_prior else np.ones(fanout, bool)
    np.testing.assert_array_equal(result.loss == np.inf, is_infinite)
    assert np.isfinite(result.loss[~is_infinite]).all()
    if to_prior:
        assert np.isfinite(result.dw).all() and np.isfinite(result.dx).all()


def test_kinds_of_arrays():
    tree = build("random")
    problem = oracle.random_problem(tree, 5, 3, np.float32)
    prior = tree.row_shares(np.arange(tree.num_classes))
    want = losses_of(problem, tree, prior)
    for given in (
        prior.tolist(),
        prior.astype(np.float32),
        tf.constant(prior),
        tf.Variable(prior),
    ):
        np.testing.assert_array_equal(losses_of(problem, tree, given), want)


def test_groups_beside_the_paths_are_not_looked_at():
    tree = tf_hsm.Tree.from_nested([[0, 1, 2], [3, 4, 5], 6])
    problem = oracle.random_problem(tree, 3, 3, np.float32)
    prior = tree.row_shares()
    want = losses_of(problem.replace(labels=np.arange(3)), tree, prior)
    prior[tree.class_rows[3:6]] = np.nan
    got = losses_of(problem.replace(labels=np.arange(3)), tree, prior)
    np.testing.assert_array_equal(got, want)
    ignored = smoothed(prior)(
        problem.weights,
        problem.biases,
        np.array([0, 4, 4]),
        problem.inputs,
        tree,
        ignore_class=4,
    )
    np.testing.assert_array_equal(ignored, [want[0], 0, 0])
