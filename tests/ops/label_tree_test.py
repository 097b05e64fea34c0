"""Label trees, against NumPy and against sums over all sets of labels."""

import itertools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import label_tree_reference as reference
from tests.support import trees
from tests.support.pairs import all_pairs
from tests.support.training import assert_near, kept_loss, states, step_from
from tests.support.update_rules import OPTIMIZERS, built

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
# What the values below are right to, with a width of 7.
TOLERANCES = dict(zip(DTYPES, (1e-12, 1e-5, 2e-2, 3e-3), strict=True))
WIDTH = 7


def random_parameters(tree, dtype=np.float64, batch=9, seed=0):
    """Weights, biases and inputs."""
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=shape).astype(dtype)
        for shape in [(tree.num_rows, WIDTH), tree.num_rows, (batch, WIDTH)]
    ]


def random_labels(tree, batch=9, most=6, seed=0):
    """Lists of labels, some of them twice; the first is empty."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(tree.num_classes, size=min(i, most)).tolist()
        for i in range(batch)
    ]


def padded(labels, padding=-1):
    full = np.full([len(labels), max(map(len, labels))], padding)
    for row, its in zip(full, labels, strict=True):
        row[: len(its)] = its
    return full


def gradients(parameters, labels, tree, upstream, make=tf.Variable):
    """Losses, and the gradients of the weights, the biases and the inputs."""
    weights, biases = [None if p is None else make(p) for p in parameters[:2]]
    inputs = tf.constant(parameters[2])
    sources = [v for v in (weights, biases, inputs) if v is not None]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        losses = tf_hsm.label_tree_loss(weights, biases, labels, inputs, tree)
        total = tf.reduce_sum(losses * tf.cast(upstream, losses.dtype))
    return losses, *tape.gradient(total, sources)


@pytest.mark.parametrize("name, dtype", all_pairs([*trees.CATALOGUE], DTYPES))
def test_loss_and_gradients(name, dtype):
    tree = trees.CATALOGUE[name]()
    parameters = random_parameters(tree, dtype)
    labels = random_labels(tree)
    upstream = np.linspace(-1, 2, len(labels))
    found = gradients(parameters, padded(labels), tree, upstream)
    wide = [np.asarray(p, np.float64) for p in parameters]
    losses, dx, dw, db, touched = reference.loss(
        *wide[:2], labels, wide[2], tree, upstream
    )
    tolerance = TOLERANCES[dtype]

    def check(one, other):
        np.testing.assert_allclose(
            np.asarray(one, np.float64),
            other,
            rtol=tolerance,
            atol=tolerance * max(1, np.abs(other).max()),
        )

    # 16-bit weights are widened without rounding.
    check(found[0], losses)
    check(found[3], dx)
    for slices, dense in ((found[1], dw), (found[2], db)):
        np.testing.assert_array_equal(slices.indices, np.flatnonzero(touched))
        check(tf.convert_to_tensor(slices), dense)


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
    """In place, and from the state of a loss, as by the gradient."""
    tree = trees.CATALOGUE["huffman_4ary"]()
    start = random_parameters(tree, dtype)
    inputs = tf.constant(start[2])
    upstream = tf.constant(np.linspace(0.5, 1.5, 9), dtype)

    def in_place(variables, labels, optimizer):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = tf_hsm.label_tree_train_step(
                *variables,
                labels,
                inputs,
                tree,
                optimizer,
                loss_weights=upstream,
            )
            total = tf.reduce_sum(upstream * losses)
        return losses, tape.gradient(total, inputs)

    def by_gradient(variables, labels, optimizer):
        parameters = [*(v.numpy() for v in variables), start[2]]
        losses, *found, dx = gradients(parameters, labels, tree, upstream)
        optimizer.apply(found, variables)
        return losses, dx

    def from_state(variables, labels, optimizer):
        made = kept_loss(
            variables,
            labels,
            inputs,
            tree,
            label_sets=True,
            ignore_classes=[-1],
        )
        step_from(made.state, variables, upstream, optimizer)
        return made.loss, made.input_grads * upstream[:, np.newaxis]

    results = []
    for step in (in_place, by_gradient, from_state):
        variables = [tf.Variable(p) for p in start[:2]]
        optimizer = built(rule, variables)
        found = [
            step(variables, padded(random_labels(tree, seed=i)), optimizer)
            for i in range(3)
        ]
        results.append([found, states(optimizer, variables)])
        assert int(optimizer.iterations) == 3
    for other in results[1:]:
        assert_near(results[0], other, 1e-10 if dtype == np.float64 else 1e-4)


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
