"""Steps in place with every option of a rule: as Keras, and as in two."""

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import embedding_training
from tests.support.keras_rules import CASES, make
from tests.support.pairs import all_pairs
from tests.support.places import HERE
from tests.support.step_cases import check_weight_decay
from tests.support.training import (
    assert_near,
    draw_indices,
    in_place,
    in_two,
    variables_of,
    wide_problem,
)
from tests.support.update_rules import OPTIMIZERS

TREE = tf_hsm.Tree.two_level(50)
PINNED = tf_hsm.Tree.huffman(np.arange(1, 40), pinned=True)
WAYS = [in_place, in_two]
NEAREST = {"stochastic_rounding": False}
TOLERANCES = {
    np.float64: 1e-12,
    np.float32: 1e-5,
    ml_dtypes.bfloat16: 3e-2,
    np.float16: 1e-2,
}
EXCLUDED = [[], ["weights"], ["biases"], ["weights", "biases"]]


def named(variables):
    """Keras variables of these values, with the names of arguments."""
    names = ["weights", "biases", "vectors"]
    return [
        keras.Variable(v.numpy(), dtype=v.dtype.name, name=name)
        for v, name in zip(variables, names, strict=False)
    ]


@pytest.mark.parametrize("tree", [TREE, PINNED], ids=["rows", "pinned"])
@pytest.mark.parametrize("name, stock_name, options", CASES)
def test_all_rows_as_the_dense_optimizer_of_keras(
    name, stock_name, options, tree
):
    """To twelve digits, over steps that touch every row."""
    optimizers = make(name, stock_name, options)
    labels = np.arange(tree.num_classes)
    start = wide_problem(tree, (len(labels), 7), np.float64)
    results = []
    for optimizer, step in zip(optimizers, WAYS, strict=True):
        optimizer.exclude_from_weight_decay(var_names=["biases"])
        variables = named(variables_of(start, np.float64))
        optimizer.build(variables)
        for seed in range(4):
            problem = wide_problem(tree, (len(labels), 7), np.float64, seed)
            problem = problem.replace(labels=labels)
            if step is in_place:
                step(variables, problem, tree, optimizer)
            else:
                apply_dense(variables, problem, tree, optimizer)
        results.append([v.numpy() for v in (*variables, *optimizer.variables)])
    for mine, its in zip(*results, strict=True):
        np.testing.assert_allclose(mine, its, 1e-12, 1e-12)


def apply_dense(variables, problem, tree, optimizer):
    with tf.GradientTape() as tape:
        losses = tf_hsm.hierarchical_softmax_loss(
            *variables, problem.labels, problem.inputs, tree
        )
        total = tf.reduce_sum(losses * problem.upstream)
    gradients = tape.gradient(total, [v.value for v in variables])
    optimizer.apply(list(map(tf.convert_to_tensor, gradients)), variables)


def decaying(rule, excluded):
    optimizer = OPTIMIZERS[rule]()
    optimizer.weight_decay = 0.25
    optimizer.exclude_from_weight_decay(var_names=excluded)
    return optimizer


@pytest.mark.parametrize("excluded", EXCLUDED, ids="-".join)
@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_decay_of_touched_rows(rule, excluded):
    check_weight_decay(HERE, rule, excluded)


@pytest.mark.parametrize(
    "rule, dtype, tree",
    all_pairs(list(OPTIMIZERS), list(TOLERANCES), [TREE, PINNED]),
)
def test_several_steps_as_in_two(rule, tree, dtype):
    results = []
    for step, rounding in zip(WAYS, [NEAREST, {}], strict=True):
        problem = wide_problem(tree, (5, 9), dtype)
        variables = named(variables_of(problem, dtype))
        optimizer = decaying(rule, ["biases"])
        optimizer.build(variables)
        for seed in range(3):
            problem = wide_problem(tree, (5, 9), dtype, seed)
            step(variables, problem, tree, optimizer, **rounding)
        results.append([np.asarray(v, np.float64) for v in variables])
    assert_near(*results, TOLERANCES[dtype])


@pytest.mark.parametrize("excluded", [[], ["vectors"], ["weights", "biases"]])
@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_decay_of_vectors(rule, excluded):
    problem = wide_problem(TREE, (30, 9), np.float64)
    indices = draw_indices(30)
    results = []
    for in_one in (True, False):
        variables = named(embedding_training.variables_of(problem, np.float64))
        optimizer = decaying(rule, excluded)
        optimizer.build(variables)
        if in_one:
            embedding_training.step(
                variables, problem, indices, TREE, optimizer
            )
        else:
            *parameters, vectors = variables
            with tf.GradientTape() as tape:
                losses = tf_hsm.hierarchical_softmax_loss(
                    *parameters,
                    problem.labels,
                    tf.gather(vectors.value, indices),
                    TREE,
                )
                total = tf.reduce_sum(losses * problem.upstream)
            gradients = tape.gradient(total, [v.value for v in variables])
            optimizer.apply(gradients, variables)
        results.append([v.numpy() for v in variables])
    assert_near(*results, 1e-12)
