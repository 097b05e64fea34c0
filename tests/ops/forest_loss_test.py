"""Loss and training step of forests: what a cut tree gives, the tree gives.

Against the oracle in float64, of the forest and of the tree that it was cut
from.
"""

import functools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import forests, oracle, training
from tests.support.evaluation import assert_within, dense, evaluate
from tests.support.pairs import all_pairs
from tests.support.update_rules import OPTIMIZERS

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]

build = functools.cache(lambda name: forests.TREES[name]())


@functools.cache
def cut(name, seed):
    tree = build(name)
    return forests.cut(tree, forests.some_rows(tree, seed), seed)


@pytest.mark.parametrize(
    "name, dtype, shape, seed",
    all_pairs(
        list(forests.TREES), DTYPES, [(0, 3), (7, 5), (67, 33)], range(2)
    ),
)
def test_loss_and_gradients(name, seed, shape, dtype):
    """With variables and tensors, in a graph and out of one."""
    forest = cut(name, seed).forest
    problem = oracle.random_problem(forest, *shape, dtype, seed)
    expected, bound = oracle.hierarchical_softmax(forest, problem)
    for parameter, graph in [(tf.constant, False), (tf.Variable, True)]:
        result = evaluate(
            tf_hsm.hierarchical_softmax_loss,
            forest,
            problem,
            parameter=parameter,
            graph=graph,
        )
        assert_within(dense(result), expected, bound)
        rows = oracle.touched_rows(forest, problem.labels)
        np.testing.assert_array_equal(result.dw.indices, rows)
        np.testing.assert_array_equal(result.db.indices, rows)


@pytest.mark.parametrize("name", forests.TREES)
@pytest.mark.parametrize("seed", range(3))
def test_a_cut_tree_has_the_loss_of_the_tree(name, seed):
    """The top's and, where its class is a root, the forest's."""
    tree, parts = build(name), cut(name, seed)
    problem = oracle.random_problem(tree, 80, 9, np.float64, seed)
    expected, bound = oracle.hierarchical_softmax(tree, problem)
    place = np.full(tree.num_classes, -1)
    place[parts.classes] = np.arange(parts.classes.size)

    def part(structure, rows, labels):
        return evaluate(
            tf_hsm.hierarchical_softmax_loss,
            structure,
            problem.replace(
                weights=problem.weights[rows],
                biases=problem.biases[rows],
                labels=labels,
            ),
            ignore_class=-1,
        )

    top = dense(
        part(parts.top, parts.top_rows, parts.top_classes[problem.labels])
    )
    below = dense(part(parts.forest, parts.rows, place[problem.labels]))
    dw, db = np.zeros_like(expected.dw), np.zeros_like(expected.db)
    dw[parts.top_rows], db[parts.top_rows] = top.dw, top.db
    dw[parts.rows], db[parts.rows] = below.dw, below.db
    total = oracle.Result(top.loss + below.loss, top.dx + below.dx, dw, db)
    assert_within(total, expected, bound)


@pytest.mark.parametrize(
    "name, rule, dtype, has_biases",
    all_pairs(list(forests.TREES), list(OPTIMIZERS), DTYPES, [True, False]),
)
def test_training_steps(rule, name, has_biases, dtype):
    shape = (5, 3) if has_biases else (67, 33)
    training.check_steps(rule, cut(name, 1).forest, shape, dtype, has_biases)


@pytest.mark.parametrize("name", forests.TREES)
def test_embedding_training_step(name):
    """As a step whose inputs are looked up."""
    forest = cut(name, 0).forest
    problem = oracle.random_problem(forest, 40, 7, np.float64)
    table = np.random.default_rng(1).normal(size=[11, 7])
    indices = np.arange(40) % 11
    results = []
    for embeds in (False, True):
        w, b = training.variables_of(problem)
        vectors = tf.Variable(table)
        optimizer = tf_hsm.optimizers.SGD(0.1)
        optimizer.build([w, b, vectors])
        if embeds:
            losses = tf_hsm.hierarchical_softmax_embedding_train_step(
                w, b, problem.labels, vectors, indices, forest, optimizer
            )
        else:
            with tf.GradientTape() as tape:
                inputs = tf.gather(vectors, indices)
                losses = tf_hsm.hierarchical_softmax_train_step(
                    w, b, problem.labels, inputs, forest, optimizer
                )
                mean = tf.reduce_mean(losses)
            gradient = tape.gradient(mean, vectors)
            optimizer.apply([gradient], [vectors])
        results.append([losses, w, b, vectors])
    training.assert_near(*results, 1e-12)


def test_touched_rows():
    """Those of the groups on paths, each once."""
    from tf_hsm.layers.row_options import touched_rows

    forest = cut("huffman_3", 1).forest
    labels = np.array([3, 0, 3, forest.num_classes - 1])
    np.testing.assert_array_equal(
        touched_rows(forest, labels), oracle.touched_rows(forest, labels)
    )


def test_weights_of_another_forest():
    """The number of roots follows from the others, and must be possible."""
    forest = cut("binary", 0).forest
    problem = oracle.random_problem(forest, 3, 4, np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="row_groups"):
        tf_hsm.hierarchical_softmax_loss(
            problem.weights[:-1], None, problem.labels, problem.inputs, forest
        )
