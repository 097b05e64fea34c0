"""What `tf.profiler` counts of the ops, against counts by hand."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import trees
from tests.support.training import kept_loss, step_from
from tf_hsm.runtime import private_tensorflow

WIDTH, BATCH = 7, 11
LABELS = tf.TensorSpec([BATCH], tf.int64)
CANDIDATES = tf.TensorSpec([BATCH, 3], tf.int64)
INPUTS = tf.TensorSpec([BATCH, WIDTH], tf.float64)


def graph_of(function, *specs):
    return tf.function(function).get_concrete_function(*specs).graph


def flops(graph, op="TfHsm"):
    """The FLOPs of each op with this in its name."""
    found = [o for o in graph.get_operations() if op in o.type]
    assert found
    return [private_tensorflow.flops_of(o) for o in found]


def count(function, *specs, op="TfHsm"):
    return sum(flops(graph_of(function, *specs), op))


def products(tree):
    """The FLOPs of the products of a loss, by the mean of all paths."""
    total = 0
    for c in range(tree.num_classes):
        for row in tree.path(c):
            group = tree.row_groups[row]
            total += np.diff(tree.group_offsets[group : group + 2])[0]
    return 2 * BATCH * WIDTH * total / tree.num_classes


class Model:
    """Variables for a tree, and what a graph does with them."""

    def __init__(self, tree):
        rows = tree.num_weight_rows
        shapes = [rows, WIDTH], [rows], [5, WIDTH]
        zeros = [tf.zeros(shape, tf.float64) for shape in shapes]
        *self.parameters, self.vectors = map(tf.Variable, zeros)
        self.head = tf_hsm.TreeHead(*self.parameters, tree)
        self.optimizer = tf_hsm.optimizers.SGD()
        self.optimizer.build([*self.parameters, self.vectors])

    def gradient(self, labels, inputs, head=None):
        head = head or self.head
        sources = [head.weights, head.biases, inputs]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            losses = head.loss(labels, inputs)
        return tape.gradient(losses, sources)

    def gradient_of_tensors(self, labels, inputs):
        tensors = [v.read_value() for v in self.parameters]
        head = tf_hsm.TreeHead(*tensors, self.head.tree)
        return self.gradient(labels, inputs, head)

    def step(self, labels, inputs):
        return self.head.train_step(labels, inputs, self.optimizer)

    def step_from_state(self, labels, inputs):
        made = kept_loss(self.parameters, labels, inputs, self.head.tree)
        ones = tf.ones([BATCH], tf.float64)
        step_from(made.state, self.parameters, ones, self.optimizer)

    def embedding_step(self, labels, indices):
        return tf_hsm.hierarchical_softmax_embedding_train_step(
            *self.parameters,
            labels,
            self.vectors,
            indices,
            self.head.tree,
            self.optimizer,
        )


@pytest.mark.parametrize("name", trees.CATALOGUE)
@pytest.mark.parametrize("way", ["gradient", "gradient_of_tensors"])
def test_loss_and_gradient(name, way):
    tree = trees.CATALOGUE[name]()
    function = getattr(Model(tree), way)
    found = count(function, LABELS, INPUTS)
    assert found == pytest.approx(3 * products(tree), abs=2)
    found = count(function, LABELS, INPUTS, op="LossGrad")
    assert found == pytest.approx(products(tree), abs=1)


def test_a_pinned_tree_has_half_the_products():
    binary = tf_hsm.Tree.balanced(37, 2)
    full, half = (
        count(Model(tree).head.loss, LABELS, INPUTS)
        for tree in (binary, binary.pin())
    )
    assert full == pytest.approx(2 * half, abs=2)


@pytest.mark.parametrize(
    "function, specs, op, times",
    [
        ("step", (LABELS, INPUTS), "TfHsm", 3),
        ("step_from_state", (LABELS, INPUTS), "LossStep", 1),
        ("embedding_step", (LABELS, LABELS), "TfHsm", 3),
    ],
)
def test_steps(function, specs, op, times):
    """So many products along the paths of labels."""
    tree = trees.CATALOGUE["random"]()
    found = count(getattr(Model(tree), function), *specs, op=op)
    assert found == pytest.approx(times * products(tree), abs=1)


def test_answers():
    """The paths of three classes; all rows."""
    tree = trees.CATALOGUE["random"]()
    head = Model(tree).head
    found = count(head.log_prob, CANDIDATES, INPUTS)
    assert found == pytest.approx(3 * products(tree), abs=1)
    for answer in (head.log_probs, lambda x: head.top_k(x, 2)):
        found = count(answer, INPUTS)
        assert found == 2 * BATCH * WIDTH * tree.num_rows


def test_the_profiler_counts_what_has_a_known_shape():
    model = Model(trees.CATALOGUE["random"]())
    unknown = (
        tf.TensorSpec([None], tf.int64),
        tf.TensorSpec([None, WIDTH], tf.float64),
    )
    assert flops(graph_of(model.head.loss, *unknown)) == [None]
    graph = graph_of(model.head.loss, LABELS, INPUTS)
    profiler = tf.compat.v1.profiler
    options = profiler.ProfileOptionBuilder(
        profiler.ProfileOptionBuilder.float_operation()
    ).with_empty_output()
    with graph.as_default():
        found = profiler.profile(graph, options=options.build())
    wanted = 2 * products(model.head.tree)
    assert found.total_float_ops == pytest.approx(wanted, abs=2)
