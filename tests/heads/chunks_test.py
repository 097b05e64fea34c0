"""Flat trees whose probabilities are too many to keep: chunks of examples.

More than 256 MB of probabilities, in float64 so that few numbers are as many.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.training import kept_loss, states, step_from
from tests.support.update_rules import built
from tf_hsm.runtime.library import raw_ops

CLASSES, WIDTH, BATCH = 9_001, 65, 3_800
TREE = tf_hsm.Tree.flat(CLASSES)


@pytest.fixture(name="problem", scope="module")
def make_problem():
    """(weights, biases, labels, inputs), float64 tensors."""
    rng = np.random.default_rng(3)
    assert 8 * CLASSES * BATCH > 256 << 20

    def normal(*shape):
        return tf.constant(rng.normal(size=shape))

    labels = tf.constant(rng.integers(0, CLASSES, BATCH))
    return normal(CLASSES, WIDTH), normal(CLASSES), labels, normal(BATCH, WIDTH)


def oracle_gradients(problem, weights_of_losses):
    """The gradients (dw, db, dx) of a weighted sum, by all logits."""
    w, b, labels, x = problem
    with tf.GradientTape() as tape:
        tape.watch([w, b, x])
        logits = tf.matmul(x, w, transpose_b=True) + b
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        total = tf.reduce_sum(weights_of_losses * losses)
    return tape.gradient(total, [w, b, x])


@pytest.mark.parametrize("kind", ["mean", "zero", "weighted"])
def test_gradients(problem, kind):
    """Equal weights use the gradient made before, others make their own."""
    weights = {
        "mean": np.full(BATCH, 1 / BATCH),
        "zero": np.zeros(BATCH),
        "weighted": np.linspace(0, 2 / BATCH, BATCH),
    }[kind]
    w, b, labels, x = problem
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([w, b, x])
        losses = tf_hsm.hierarchical_softmax_loss(w, b, labels, x, TREE)
        total = tf.reduce_sum(weights * losses)
        twice = 2 * total
    gradients = tape.gradient(total, [w, b, x])
    # Whoever has the first gradients keeps them when others are asked for.
    doubled = tape.gradient(twice, [w, b, x])
    wanted = oracle_gradients(problem, weights)
    for got, more, want in zip(gradients, doubled, wanted, strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(got), want, rtol=1e-11, atol=1e-15
        )
        np.testing.assert_allclose(
            tf.convert_to_tensor(more), 2 * want, rtol=1e-11, atol=1e-15
        )


def test_bfloat16():
    """The sums are float, the gradient is rounded once."""
    classes, batch = 2 * CLASSES, BATCH
    tree = tf_hsm.Tree.flat(classes)
    rng = np.random.default_rng(4)
    w = tf.cast(rng.normal(size=[classes, WIDTH]), tf.bfloat16)
    x = tf.constant(rng.normal(size=[batch, WIDTH]), tf.float32)
    labels = rng.integers(0, classes, batch)
    found = []
    for scale in (np.ones(batch), np.linspace(1, 1 + 1e-6, batch)):
        with tf.GradientTape() as tape:
            tape.watch(w)
            losses = tf_hsm.hierarchical_softmax_loss(w, None, labels, x, tree)
            total = tf.reduce_sum(tf.cast(scale, tf.float32) * losses)
        gradient = tf.convert_to_tensor(tape.gradient(total, w))
        found.append(tf.cast(gradient, tf.float32).numpy())
    # Ready, and made again: to one rounding of bfloat16 and some of float32.
    np.testing.assert_allclose(*found, rtol=2**-7, atol=1e-4)


@pytest.mark.parametrize(
    "rule, kind",
    [
        ("rowwise_adagrad", "equal"),
        ("lazy_adam", "equal"),
        ("adagrad", "weighted"),
    ],
)
def test_steps_from_a_state(problem, rule, kind):
    """Equal weights use the sums of the loss, also after a gradient has.

    Others, and parameters that have moved, go by the normalizers.
    """
    w, b, labels, x = problem
    loss_weights = {
        "equal": np.full(BATCH, 2 / BATCH),
        "weighted": np.linspace(0, 2 / BATCH, BATCH),
    }[kind]
    dw, db, _ = oracle_gradients(problem, loss_weights)
    one, other = (
        kept_loss([tf.Variable(w), tf.Variable(b)], labels, x, TREE).state
        for _ in range(2)
    )

    def check_gradient(state):
        gradient = raw_ops.tf_hsm_loss_grad(
            weights=w, biases=[b], loss_grads=loss_weights, state=state
        )
        np.testing.assert_allclose(
            gradient.weight_grads, dw, rtol=1e-11, atol=1e-15
        )

    check_gradient(other)
    found = []
    for state, moved in ((one, False), (one, True), (other, False)):
        variables = [tf.Variable(w), tf.Variable(b)]
        optimizer = built(rule, variables)
        step_from(state, variables, loss_weights, optimizer, moved=moved)
        found.append(states(optimizer, variables))
    check_gradient(one)
    variables = [tf.Variable(w), tf.Variable(b)]
    optimizer = built(rule, variables)
    rows = tf.range(CLASSES)
    gradients = [tf.IndexedSlices(g, rows) for g in (dw, db)]
    optimizer.apply(gradients, variables)
    found.append(states(optimizer, variables))
    for one in found[1:]:
        for arrays, others in zip(found[0], one, strict=True):
            for array, other in zip(arrays, others, strict=True):
                np.testing.assert_allclose(array, other, rtol=1e-9, atol=1e-14)
