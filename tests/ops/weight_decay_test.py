"""Steps in place with every option of a rule, as Keras makes them.

`conformance_test` compares the weight decay of touched rows with NumPy.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.keras_rules import CASES, make
from tests.support.places import HERE
from tests.support.step_cases import check_infinities
from tests.support.training import in_place, variables_of, wide_problem

TREES = {
    "rows": tf_hsm.Tree.two_level(50),
    "pinned": tf_hsm.Tree.huffman(np.arange(1, 40), pinned=True),
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
@pytest.mark.parametrize("name, stock_name, options", CASES)
def test_all_rows_as_the_dense_optimizer_of_keras(
    name, stock_name, options, tree
):
    """To twelve digits, over steps that touch every row."""
    labels = np.arange(tree.num_classes)

    def problem_of(seed):
        problem = wide_problem(tree, (len(labels), 7), np.float64, seed)
        return problem.replace(labels=labels)

    results = []
    for optimizer, step in zip(
        make(name, stock_name, options), (in_place, apply_dense), strict=True
    ):
        optimizer.exclude_from_weight_decay(var_names=["biases"])
        variables = [
            keras.Variable(v.numpy(), dtype="float64", name=name)
            for v, name in zip(
                variables_of(problem_of(0)), ["weights", "biases"], strict=True
            )
        ]
        optimizer.build(variables)
        for seed in range(4):
            step(variables, problem_of(seed), tree, optimizer)
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


def test_what_does_not_decay_keeps_infinities():
    check_infinities(HERE)
