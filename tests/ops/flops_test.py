"""What `tf.profiler` counts of the ops, against counts by hand."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import trees
from tests.support.training import kept_loss, step_from
from tf_hsm.runtime import private_tensorflow

WIDTH, BATCH = 7, 11


def count(function, *arguments, op=None):
    """The FLOPs of a function's ops; of those of one name if there is one."""
    graph = tf.function(function).get_concrete_function(*arguments).graph
    found = [
        (operation.type, private_tensorflow.flops_of(operation))
        for operation in graph.get_operations()
        if "TfHsm" in operation.type and (op is None or op in operation.type)
    ]
    assert found
    return sum(flops for _, flops in found)


def rows_per_example(tree):
    """The mean over classes of the rows on the path, one by one."""
    total = 0
    for c in range(tree.num_classes):
        row = tree.class_rows[c]
        while row >= 0:
            group = tree.row_groups[row]
            begin, end = tree.group_offsets[group : group + 2]
            total += end - begin
            row = tree.group_parents[group]
    return total / tree.num_classes


def variables(tree):
    rng = np.random.default_rng(0)
    weights = tf.Variable(rng.normal(size=[tree.num_rows, WIDTH]), shape=None)
    return weights, tf.Variable(tf.zeros([tree.num_rows], tf.float64))


LABELS = tf.TensorSpec([BATCH], tf.int64)
INPUTS = tf.TensorSpec([BATCH, WIDTH], tf.float64)


@pytest.mark.parametrize("name", trees.CATALOGUE)
@pytest.mark.parametrize("as_tensors", [False, True])
def test_loss_and_gradient(name, as_tensors):
    tree = trees.CATALOGUE[name]()
    weights, biases = variables(tree)

    def loss(labels, inputs):
        values = (weights, biases)
        if as_tensors:
            values = tuple(v.read_value() for v in values)
        with tf.GradientTape() as tape:
            tape.watch([*values, inputs])
            losses = tf_hsm.hierarchical_softmax_loss(
                *values, labels, inputs, tree
            )
        return tape.gradient(losses, [*values, inputs])

    product = 2 * BATCH * WIDTH * rows_per_example(tree)
    assert count(loss, LABELS, INPUTS) == pytest.approx(3 * product, abs=2)
    found = count(loss, LABELS, INPUTS, op="LossGrad")
    assert found == pytest.approx(product, abs=1)


def test_a_pinned_tree_has_half_the_products():
    binary = tf_hsm.Tree.balanced(37, 2)
    counts = []
    for tree in (binary, binary.pin()):
        weights = tf.Variable(tf.zeros([tree.num_weight_rows, WIDTH]))

        def losses(labels, inputs, weights=weights, tree=tree):
            return tf_hsm.hierarchical_softmax_loss(
                weights, None, labels, inputs, tree
            )

        counts.append(count(losses, LABELS, INPUTS))
    assert counts[0] == pytest.approx(2 * counts[1], abs=2)


def test_steps_in_place():
    tree = trees.CATALOGUE["random"]()
    weights, biases = variables(tree)
    vectors = tf.Variable(tf.zeros([5, WIDTH], tf.float64))
    optimizer = tf_hsm.optimizers.SGD()
    optimizer.build([weights, biases, vectors])
    product = 2 * BATCH * WIDTH * rows_per_example(tree)

    def step(labels, inputs):
        return tf_hsm.hierarchical_softmax_train_step(
            weights, biases, labels, inputs, tree, optimizer=optimizer
        )

    assert count(step, LABELS, INPUTS) == pytest.approx(3 * product, abs=1)

    def from_state(labels, inputs):
        made = kept_loss([weights, biases], labels, inputs, tree)
        ones = tf.ones([BATCH], tf.float64)
        step_from(made.state, [weights, biases], ones, optimizer)

    found = count(from_state, LABELS, INPUTS, op="LossStep")
    assert found == pytest.approx(product, abs=1)

    def embedding_step(labels, indices):
        return tf_hsm.hierarchical_softmax_embedding_train_step(
            weights, biases, labels, vectors, indices, tree, optimizer=optimizer
        )

    found = count(embedding_step, LABELS, LABELS)
    assert found == pytest.approx(3 * product, abs=1)


def test_inference():
    tree = trees.CATALOGUE["random"]()
    weights, biases = variables(tree)
    path = 2 * BATCH * WIDTH * rows_per_example(tree)
    all_rows = 2 * BATCH * WIDTH * tree.num_rows

    def log_prob(classes, inputs):
        return tf_hsm.hierarchical_softmax_log_prob(
            weights, biases, classes, inputs, tree
        )

    candidates = tf.TensorSpec([BATCH, 3], tf.int64)
    found = count(log_prob, candidates, INPUTS)
    assert found == pytest.approx(3 * path, abs=1)

    def log_probs(inputs):
        return tf_hsm.hierarchical_softmax_log_probs(
            weights, biases, inputs, tree
        )

    assert count(log_probs, INPUTS) == all_rows

    def top_k(inputs):
        return tf_hsm.hierarchical_softmax_top_k(
            weights, biases, inputs, tree, k=2
        )

    assert count(top_k, INPUTS) == all_rows


def graph_of_loss(tree, *arguments):
    """The graph of a loss of labels and inputs."""
    weights, biases = variables(tree)

    @tf.function
    def loss(labels, inputs):
        return tf_hsm.hierarchical_softmax_loss(
            weights, biases, labels, inputs, tree
        )

    return loss.get_concrete_function(*arguments).graph


def test_unknown_shapes_are_not_counted():
    graph = graph_of_loss(
        trees.CATALOGUE["random"](),
        tf.TensorSpec([None], tf.int64),
        tf.TensorSpec([None, WIDTH], tf.float64),
    )
    (operation,) = [o for o in graph.get_operations() if "TfHsm" in o.type]
    assert private_tensorflow.flops_of(operation) is None


def test_the_profiler_counts_them():
    tree = trees.CATALOGUE["random"]()
    graph = graph_of_loss(tree, LABELS, INPUTS)
    profiler = tf.compat.v1.profiler
    options = profiler.ProfileOptionBuilder(
        profiler.ProfileOptionBuilder.float_operation()
    ).with_empty_output()
    with graph.as_default():
        found = profiler.profile(graph, options=options.build())
    product = 2 * BATCH * WIDTH * rows_per_example(tree)
    assert found.total_float_ops == pytest.approx(2 * product, abs=2)
