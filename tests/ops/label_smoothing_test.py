"""Label smoothing of the loss and of the steps, against NumPy and Keras."""

import functools

import keras
import ml_dtypes
import numpy as np
import pytest

import tf_hsm
from tests.support import (
    embedding_training,
    evaluation,
    oracle,
    training,
    trees,
)
from tests.support.pairs import all_pairs
from tests.support.update_rules import OPTIMIZERS, built

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
# Few examples, whose groups are updated at once, and many.
SHAPES = [(5, 3), (67, 33)]

build = functools.cache(lambda name: trees.CATALOGUE[name]())


def smoothed(share):
    """The loss function with this label smoothing."""
    return functools.partial(
        tf_hsm.hierarchical_softmax_loss, label_smoothing=share
    )


@pytest.mark.parametrize("name, dtype", trees.typed(DTYPES))
def test_loss_and_gradients(name, dtype):
    tree = build(name)
    for problem in evaluation.smoothed_problems(tree, dtype):
        evaluation.check_loss(tree, problem)


def test_the_gradient_is_that_of_the_loss():
    """The gradient equals finite differences of the oracle's loss."""
    tree = build("random")
    problem = oracle.random_problem(tree, 3, 4, np.float64)
    problem = problem.replace(label_smoothing=0.375)

    def total(weights):
        changed = problem.replace(weights=weights)
        losses = oracle.hierarchical_softmax(tree, changed)[0].loss
        return losses @ problem.upstream

    result = evaluation.dense(
        evaluation.evaluate(smoothed(0.375), tree, problem)
    )
    want = oracle.finite_differences(total, problem.weights)
    np.testing.assert_allclose(result.dw, want, atol=1e-8)


def test_one_group_is_keras_categorical_crossentropy():
    tree = tf_hsm.Tree.balanced(30, [30])
    problem = oracle.random_problem(tree, 9, 5, np.float32)
    losses = smoothed(0.25)(
        problem.weights, problem.biases, problem.labels, problem.inputs, tree
    )
    logits = problem.inputs @ problem.weights.T + problem.biases
    want = keras.losses.categorical_crossentropy(
        np.eye(30, dtype=np.float32)[tree.class_rows][problem.labels],
        logits,
        from_logits=True,
        label_smoothing=0.25,
    )
    np.testing.assert_allclose(losses, want, rtol=1e-5)


@pytest.mark.parametrize(
    "rule, name, dtype, shape",
    all_pairs(
        list(OPTIMIZERS),
        ["huffman_2ary", "random", "one_huge_group"],
        DTYPES[:3],
        SHAPES,
    ),
)
def test_a_step_is_that_of_loss_and_optimizer(rule, name, shape, dtype):
    training.check_as_in_two(
        rule, build(name), shape, dtype, label_smoothing=0.25
    )


def test_a_step_of_embeddings():
    tree = build("huffman_2ary")
    problem = training.wide_problem(tree, (20, 7))
    embedding_training.check_as_in_two(tree, problem, label_smoothing=0.5)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), "much", None])
def test_bad_shares(share):
    tree = build("random")
    problem = oracle.random_problem(tree, 2, 3, np.float32)
    with pytest.raises(
        (ValueError, TypeError), match=r"label_smoothing must be .*\[0, 1\]"
    ):
        smoothed(share)(
            problem.weights,
            problem.biases,
            problem.labels,
            problem.inputs,
            tree,
        )


@pytest.mark.parametrize("share", [0.1, 0.25, 0.9, 1.0])
def test_an_only_child_has_no_gradient(share):
    tree = tf_hsm.Tree.from_nested([[0], [1, 2]])
    problem = oracle.random_problem(tree, 9, 4, np.float32)
    problem = problem.replace(labels=np.zeros(9, int))
    result = evaluation.dense(
        evaluation.evaluate(smoothed(share), tree, problem)
    )
    (child,) = tree.class_rows[:1]
    np.testing.assert_array_equal(result.dw[child], 0)
    np.testing.assert_array_equal(result.db[child], 0)
    variables = training.variables_of(problem)
    training.in_place(
        variables,
        problem,
        tree,
        built("lazy_adam", variables),
        label_smoothing=share,
    )
    for variable, before in zip(
        variables, (problem.weights, problem.biases), strict=True
    ):
        np.testing.assert_array_equal(variable[child], before[child])


@pytest.mark.parametrize("share", [0.25, 1.0])
@pytest.mark.parametrize("fanout", [2, 3, 20])
def test_a_row_that_is_switched_off(fanout, share):
    """The mean of its group is minus infinity, whatever the label."""
    tree = tf_hsm.Tree.balanced(fanout, [fanout])
    problem = oracle.random_problem(tree, fanout, 4, np.float32)
    biases = np.where(np.arange(fanout) == 1, -np.inf, problem.biases)
    losses = smoothed(share)(
        problem.weights,
        biases.astype(np.float32),
        np.arange(fanout),
        problem.inputs,
        tree,
    )
    np.testing.assert_array_equal(losses, np.full(fanout, np.inf))
