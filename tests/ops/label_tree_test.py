"""Label trees, against NumPy and against sums over all sets of labels."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import label_tree_cases, trees
from tests.support import label_tree_reference as reference
from tests.support.label_tree_cases import (
    gradients,
    padded,
    random_labels,
    random_parameters,
)
from tests.support.pairs import all_pairs
from tests.support.places import HERE
from tests.support.update_rules import OPTIMIZERS, built


@pytest.mark.parametrize(
    "name, dtype", all_pairs([*trees.CATALOGUE], label_tree_cases.DTYPES)
)
def test_loss_and_gradients(name, dtype):
    label_tree_cases.check_loss(HERE, name, dtype)


def test_all_sets_of_labels():
    """The sets of labels of a group have together the probability 1.

    And those with a label have together the label's.
    """
    tree = tf_hsm.Tree.balanced(6, 6)
    parameters = random_parameters(tree, batch=1)
    sets = [
        list(itertools.compress(range(6), chosen))
        for chosen in itertools.product([0, 1], repeat=6)
    ]
    inputs = np.repeat(parameters[2], len(sets), 0)
    losses = tf_hsm.label_tree_loss(*parameters[:2], padded(sets), inputs, tree)
    p = np.exp(-losses)
    np.testing.assert_allclose(p.sum(), 1, rtol=1e-12)
    log_prob = tf_hsm.label_tree_log_prob(
        *parameters[:2], [range(6)], parameters[2], tree
    )
    for label in range(6):
        of_sets = sum(q for q, its in zip(p, sets, strict=True) if label in its)
        np.testing.assert_allclose(
            np.exp(log_prob[0, label]), of_sets, rtol=1e-12
        )


def test_ways_to_say_labels():
    """Ragged, int32, any order, twice, another padding, a tensor of weights."""
    tree = trees.CATALOGUE["random"]()
    parameters = random_parameters(tree, np.float32)
    labels = random_labels(tree)
    upstream = np.ones(len(labels))
    expected = gradients(parameters, padded(labels), tree, upstream)
    others = [
        tf.ragged.constant(labels, dtype=tf.int64),
        padded([its[::-1] for its in labels]).astype(np.int32),
        padded([its + its[:1] for its in labels], padding=-9),
    ]
    for given in others:
        for make in (tf.Variable, tf.constant):
            found = gradients(parameters, given, tree, upstream, make)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(
                    tf.convert_to_tensor(one), tf.convert_to_tensor(other)
                )


def test_shapes():
    """More dimensions, none, an empty batch, no labels at all, no biases."""
    tree = trees.CATALOGUE["huffman_4ary"]()
    weights, biases, inputs = random_parameters(tree, batch=6)
    labels = padded(random_labels(tree, 6))
    loss = tf_hsm.label_tree_loss
    expected = loss(weights, biases, labels, inputs, tree).numpy()
    shaped = loss(
        weights,
        biases,
        labels.reshape(2, 3, -1),
        inputs.reshape(2, 3, -1),
        tree,
    )
    np.testing.assert_array_equal(shaped, expected.reshape(2, 3))
    one = loss(weights, biases, labels[4], inputs[4], tree)
    np.testing.assert_allclose(one, expected[4], rtol=1e-12)
    assert loss(weights, biases, labels[:0], inputs[:0], tree).shape == (0,)
    none = loss(weights, biases, np.zeros([6, 0], int), inputs, tree)
    root = np.arange(tree.group_offsets[1])
    p = reference.probabilities(weights, biases, inputs)[:, root]
    np.testing.assert_allclose(none, -np.log1p(-p).sum(1), rtol=1e-12)
    np.testing.assert_allclose(
        loss(weights, None, labels, inputs, tree),
        loss(weights, np.zeros_like(biases), labels, inputs, tree),
        rtol=1e-12,
    )


@pytest.mark.parametrize("rule", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps(rule, dtype):
    label_tree_cases.check_steps(HERE, rule, dtype)


def test_wrong_labels():
    label_tree_cases.check_wrong_labels(HERE)


def test_weights_of_losses():
    """By default the mean is minimized; a scalar is for all."""
    tree = trees.CATALOGUE["random"]()
    start = random_parameters(tree)
    labels = padded(random_labels(tree))
    ends = []
    for loss_weights in (None, np.array(1 / 9), np.full(9, 1 / 9)):
        variables = [tf.Variable(p) for p in start[:2]]
        optimizer = built("sgd", variables)
        tf_hsm.label_tree_train_step(
            *variables,
            labels,
            start[2],
            tree,
            optimizer,
            loss_weights=loss_weights,
        )
        ends.append(variables[0].numpy())
    assert np.abs(ends[0] - start[0]).max() > 1e-3
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], rtol=1e-12)


def node_log_probs(weights, biases, inputs, tree):
    """`[B, rows]`: the sum over each row and the rows above it."""
    result = np.log(reference.probabilities(weights, biases, inputs))
    for row, above in enumerate(reference.parents(tree)):
        if above >= 0:
            result[:, row] += result[:, above]
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
