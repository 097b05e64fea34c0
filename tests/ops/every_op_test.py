"""Every op of the library, on tensors and on variables.

Small enough for a library with a sanitizer: bazel test --config=asan runs it.
"""

import re

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import random_calls
from tests.support.pairs import all_pairs
from tests.support.training import kept_loss, step_from
from tests.support.update_rules import OPTIMIZERS
from tf_hsm.runtime.library import constants, library_version, raw_ops

BATCH, WIDTH = 70, 19
TREES = {
    "huffman": tf_hsm.Tree.huffman(1 / np.arange(1, 200), branching=2),
    "mixed": tf_hsm.Tree.balanced(600, [3, 50, 4]),
}
CALLED = set()


def run(function, *arguments):
    """Calls it as a graph, and notes the ops in that."""
    concrete = tf.function(function).get_concrete_function(*arguments)
    CALLED.update(op.type for op in concrete.graph.get_operations())
    return concrete(*arguments)


def parameters(tree, dtype, rng):
    """Weights and biases."""
    shape = tree.num_rows, WIDTH
    return [
        tf.cast(rng.normal(size=size), dtype) for size in (shape, shape[:1])
    ]


def batch(tree, rng):
    """Labels and inputs."""
    labels = rng.integers(0, tree.num_classes, size=BATCH)
    return labels, tf.constant(rng.normal(size=(BATCH, WIDTH)), tf.float32)


@pytest.mark.parametrize(
    "make, name, dtype",
    all_pairs([tf.identity, tf.Variable], list(TREES), ["float32", "bfloat16"]),
)
def test_forward_and_backward(make, name, dtype):
    """The answers agree with the loss, and its gradient with theirs."""
    tree, rng = TREES[name], np.random.default_rng(3)
    weights, biases = [make(p) for p in parameters(tree, dtype, rng)]
    labels, inputs = batch(tree, rng)

    def answers(inputs):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([inputs, weights, biases])
            losses = tf_hsm.hierarchical_softmax_loss(
                weights, biases, labels, inputs, tree
            )
            all_classes = tf_hsm.hierarchical_softmax_log_probs(
                weights, biases, inputs, tree
            )
            picked = -tf.gather(all_classes, labels, axis=1, batch_dims=1)
        sources = [inputs, weights, biases]
        best, classes = tf_hsm.hierarchical_softmax_top_k(
            weights, biases, inputs, tree, 7
        )
        given = tf_hsm.hierarchical_softmax_log_prob(
            weights, biases, labels[:, None], inputs, tree
        )
        draws = tf_hsm.hierarchical_softmax_sample(
            weights, biases, inputs, tree, 5, seed=1
        )
        by_loss = tape.gradient(losses, sources)
        by_log_prob = tape.gradient(picked, sources)
        return (
            (losses, all_classes, best, classes, given, draws),
            [tf.convert_to_tensor(g) for g in by_loss],
            [tf.convert_to_tensor(g) for g in by_log_prob],
        )

    found, by_loss, by_log_prob = run(answers, inputs)
    losses, all_classes, best, classes, given, draws = [
        f.numpy() for f in found
    ]
    picked = all_classes[np.arange(BATCH), labels]
    np.testing.assert_allclose(losses, -picked, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(given[:, 0], picked)
    np.testing.assert_array_equal(best, -np.sort(-all_classes, axis=1)[:, :7])
    np.testing.assert_array_equal(
        np.take_along_axis(all_classes, classes, axis=1), best
    )
    assert draws.min() >= 0 and draws.max() < tree.num_classes
    tolerance = 1e-4 if dtype == "float32" else 0.05
    for one, other in zip(by_loss, by_log_prob, strict=True):
        one, other = tf.cast(one, tf.float32), tf.cast(other, tf.float32)
        np.testing.assert_allclose(
            one, other, rtol=tolerance, atol=tolerance * np.abs(other).max()
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_steps(rule, dtype):
    """In place, on vectors too, from a sparse gradient, and from a state."""
    tree, rng = TREES["mixed"], np.random.default_rng(4)
    start = parameters(tree, dtype, rng)
    labels, inputs = batch(tree, rng)
    weights, biases = [tf.Variable(p) for p in start]
    others = [tf.Variable(p) for p in start]
    third = [tf.Variable(p) for p in start]
    optimizers = [OPTIMIZERS[rule]() for _ in range(4)]
    optimizers[0].build([weights, biases])
    optimizers[1].build(others)
    optimizers[3].build(third)
    vectors = tf.Variable(tf.cast(inputs, dtype))
    optimizers[2].build([others[0], vectors])

    def in_place(inputs):
        return tf_hsm.hierarchical_softmax_train_step(
            weights,
            biases,
            labels,
            inputs,
            tree,
            optimizers[0],
            loss_weights=1.0,
        )

    def by_gradient(inputs):
        with tf.GradientTape() as tape:
            losses = tf_hsm.hierarchical_softmax_loss(
                *others, labels, inputs, tree
            )
        gradients = tape.gradient(losses, others)
        optimizers[1].apply(gradients, others)
        return losses

    def from_state(inputs):
        made = kept_loss(third, labels, inputs, tree)
        step_from(made.state, third, tf.ones([BATCH]), optimizers[3])
        return made.loss

    def embedding(indices):
        return tf_hsm.hierarchical_softmax_embedding_train_step(
            others[0], None, labels, vectors, indices, tree, optimizers[2]
        )

    losses = run(in_place, inputs)
    tolerance = 1e-4 if dtype == "float32" else 0.05
    for way, made in ((by_gradient, others), (from_state, third)):
        np.testing.assert_allclose(
            losses, run(way, inputs), rtol=1e-5, atol=1e-5
        )
        for one, other in zip((weights, biases), made, strict=True):
            np.testing.assert_allclose(
                tf.cast(one, tf.float32),
                tf.cast(other, tf.float32),
                rtol=tolerance,
                atol=tolerance,
            )
    indices = tf.constant(rng.integers(0, BATCH, size=BATCH))
    before = vectors.numpy()
    assert np.isfinite(run(embedding, indices)).all()
    touched = np.isin(np.arange(BATCH), indices)
    assert (vectors.numpy() == before)[~touched].all()


@pytest.mark.parametrize("name", TREES)
def test_label_trees(name):
    """A step in place makes the losses of the loss, and lowers them."""
    tree, rng = TREES[name], np.random.default_rng(5)
    weights, biases = map(tf.Variable, parameters(tree, "float32", rng))
    labels, inputs = batch(tree, rng)
    labels = np.stack([labels, labels[::-1], np.full(BATCH, -1)], 1)
    optimizer = OPTIMIZERS["adagrad"]()
    optimizer.build([weights, biases])

    def loss(inputs):
        with tf.GradientTape() as tape:
            losses = tf_hsm.label_tree_loss(
                weights, biases, labels, inputs, tree
            )
        gradient = tape.gradient(losses, weights)
        constants = [tf.identity(weights), tf.identity(biases)]
        others = tf_hsm.label_tree_loss(*constants, labels, inputs, tree)
        return losses, others, tf.convert_to_tensor(gradient)

    def step(inputs):
        return tf_hsm.label_tree_train_step(
            weights, biases, labels, inputs, tree, optimizer
        )

    before, same, gradient = run(loss, inputs)
    np.testing.assert_array_equal(before, same)
    assert np.isfinite(gradient).all() and np.any(gradient)
    np.testing.assert_array_equal(run(step, inputs), before)
    assert np.mean(run(loss, inputs)[0]) < np.mean(before)


@pytest.mark.parametrize("op, on_variables", random_calls.OPS)
def test_options(op, on_variables):
    """Pinned trees, smoothing, masks, bags, ... on small random problems."""
    for seed in range(16):
        rng = np.random.default_rng(seed)
        call = random_calls.valid_call(op, on_variables, rng)
        losses = getattr(call.run(), "loss", tf.zeros([]))
        assert np.isfinite(losses).all()


def test_every_op_was_called():
    """No op is left out above."""
    tf_hsm.cpu_isa()
    library_version()
    assert all(value > 0 for value in constants())
    name = re.compile("(Resource)?TfHsm[A-Za-z]+")
    ops = {op for op in dir(raw_ops) if name.fullmatch(op)}
    assert len(ops) > 10
    assert ops - CALLED == {
        "TfHsmConstants",
        "TfHsmCpuIsa",
        "TfHsmVersion",
    }
