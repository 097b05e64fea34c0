"""Nodes, beams and allowed labels of label trees, against NumPy in float64."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import inference_reference, trees
from tests.support import label_tree_reference as reference

WIDTH = 7
TREE = tf_hsm.Tree.two_level(30)


def random_parameters(tree, batch=9, seed=0):
    """Weights, biases and inputs."""
    rng = np.random.default_rng(seed)
    shapes = [(tree.num_rows, WIDTH), tree.num_rows, (batch, WIDTH)]
    return [rng.normal(size=shape) for shape in shapes]


def node_log_probs(weights, biases, inputs, tree):
    """`[B, rows]`: the sum over each row and the rows above it."""
    of_rows = np.log(reference.probabilities(weights, biases, inputs))
    result = np.zeros(of_rows.shape)
    above = reference.parents(tree)
    for row in range(tree.num_rows):
        at = row
        while at >= 0:
            result[:, row] += of_rows[:, at]
            at = above[at]
    return result


@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_nodes(name):
    tree = trees.CATALOGUE[name]()
    parameters = random_parameters(tree)
    expected = node_log_probs(*parameters, tree)
    weights, biases, inputs = parameters
    rows = np.broadcast_to(np.arange(tree.num_rows), expected.shape)
    for given in (weights, tf.Variable(weights)):
        found = tf_hsm.label_tree_log_prob(
            given, biases, rows, inputs, tree, nodes=True
        )
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    # The leaves are the labels.
    labels = np.broadcast_to(
        np.arange(tree.num_classes), [len(inputs), tree.num_classes]
    )
    np.testing.assert_array_equal(
        tf_hsm.label_tree_log_prob(weights, biases, labels, inputs, tree),
        found.numpy()[:, tree.class_rows],
    )


def test_wrong_nodes():
    weights, biases, inputs = random_parameters(TREE, batch=1)
    last = TREE.num_rows
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"{last} is outside \[0, {last}"
    ):
        tf_hsm.label_tree_log_prob(
            weights, biases, [[last]], inputs, TREE, nodes=True
        )
    with pytest.raises(ValueError, match="one of nodes and allowed"):
        tf_hsm.label_tree_log_prob(
            weights, biases, [[1]], inputs, TREE, nodes=True, allowed=[1]
        )


@pytest.mark.parametrize("is_shared", [True, False])
def test_log_prob_of_allowed_labels(is_shared):
    """Another label has the log-probability minus infinity."""
    parameters = random_parameters(TREE)
    weights, biases, inputs = parameters
    expected = reference.label_log_probs(*parameters, TREE)
    lists = np.random.default_rng(1).integers(-1, 30, size=[len(inputs), 8])
    if is_shared:
        lists[:] = lists[0]
    mask = np.array([np.isin(np.arange(30), its) for its in lists])
    assert mask.any() and not mask.all()
    found = tf_hsm.label_tree_log_prob(
        weights,
        biases,
        np.tile(np.arange(30), [len(inputs), 1]),
        inputs,
        TREE,
        allowed=lists[0] if is_shared else lists,
    )
    wanted = np.where(mask, expected, -np.inf)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


@pytest.mark.parametrize("beam_width", [1, 3])
@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_beams(name, beam_width):
    """Labels, and how many nodes were left out, as by a search in Python."""
    tree = trees.CATALOGUE[name]()
    parameters = random_parameters(tree, batch=4)
    nodes = node_log_probs(*parameters, tree)
    for k in sorted({1, min(5, tree.num_classes), tree.num_classes}):
        found = tf_hsm.label_tree_top_k(
            *parameters, tree, k, beam_width=beam_width, return_pruned=True
        )
        for i, row in enumerate(nodes):
            labels, pruned = inference_reference.beam_search(
                tree, row, k, beam_width
            )
            np.testing.assert_array_equal(found.classes[i], labels)
            assert found.num_pruned[i] == pruned
            np.testing.assert_allclose(
                found.log_probs[i], row[tree.class_rows[labels]], rtol=1e-10
            )


@pytest.mark.parametrize("k", [1, 4])
def test_nothing_pruned_is_exact(k):
    """Where nodes were left out, some answers are wrong."""
    tree = trees.CATALOGUE["balanced_5ary_113"]()
    weights, biases, inputs = random_parameters(tree, batch=300)
    exact = tf_hsm.label_tree_top_k(
        weights, biases, inputs, tree, k, return_pruned=True
    )
    assert not exact.num_pruned.numpy().any()
    beam = tf_hsm.label_tree_top_k(
        weights, biases, inputs, tree, k, beam_width=1, return_pruned=True
    )
    is_same = (beam.classes.numpy() == exact.classes.numpy()).all(1)
    is_whole = beam.num_pruned.numpy() == 0
    assert is_whole.any() and not is_same.all()
    assert is_same[is_whole].all()
    wide = tf_hsm.label_tree_top_k(
        weights,
        biases,
        inputs,
        tree,
        k,
        beam_width=tree.num_groups,
        return_pruned=True,
    )
    for one, other in zip(wide, exact, strict=True):
        np.testing.assert_array_equal(one, other)


def test_wrong_beams():
    parameters = random_parameters(TREE)
    with pytest.raises(ValueError, match="beam_width = 0 is below 1"):
        tf_hsm.label_tree_top_k(*parameters, TREE, 2, beam_width=0)
    with pytest.raises(TypeError, match="beam_width"):
        tf_hsm.label_tree_top_k(*parameters, TREE, 2, beam_width=1.5)
