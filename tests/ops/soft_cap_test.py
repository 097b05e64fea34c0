"""Soft caps of logits and z-losses of flat trees, against TensorFlow's own ops.

The oracle is a softmax over all logits in float64.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm

CLASSES, WIDTH, BATCH = 77, 13, 29
TREE = tf_hsm.Tree.flat(CLASSES)
OPTIONS = [(2.0, 0.0), (None, 0.25), (1.5, 0.125)]
# The unit of rounding of a stored number, and of a sum.
ROUNDING = {
    "float64": (1e-13, 1e-13),
    "float32": (2e-6, 2e-6),
    "bfloat16": (1e-2, 2e-6),
    "float16": (2e-3, 2e-6),
}


def problem(dtype="float64"):
    """(weights, biases, labels, inputs); the first two hold `dtype` exactly."""
    rng = np.random.default_rng(5)

    def normal(*shape):
        return tf.cast(rng.normal(size=shape), dtype)

    labels = rng.integers(0, CLASSES, BATCH)
    return normal(CLASSES, WIDTH), normal(CLASSES), labels, normal(BATCH, WIDTH)


def oracle_logits(weights, biases, inputs, cap):
    """The capped logits `[B, N]` in float64."""
    logits = tf.matmul(inputs, weights, transpose_b=True) + biases
    return logits if cap is None else cap * tf.tanh(logits / cap)


def oracle_losses(weights, biases, labels, inputs, cap, z_loss):
    """The losses `[B]` in float64."""
    logits = oracle_logits(weights, biases, inputs, cap)
    sums = tf.reduce_logsumexp(logits, -1)
    return (
        sums
        - tf.gather(logits, labels, batch_dims=1)
        + z_loss * tf.square(sums)
    )


def as_float64(*arrays):
    """The arrays as float64 tensors."""
    return [tf.cast(array, tf.float64) for array in arrays]


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("cap, z_loss", OPTIONS)
def test_loss(cap, z_loss, dtype):
    """Losses and all gradients, of losses with different weights."""
    w, b, labels, x = problem(dtype)
    scale = np.linspace(0.5, 2, BATCH)
    wide = as_float64(w, b, x)
    with tf.GradientTape() as tape:
        tape.watch(wide)
        want = oracle_losses(wide[0], wide[1], labels, wide[2], cap, z_loss)
        total = tf.reduce_sum(scale * want)
    want_gradients = tape.gradient(total, wide)
    with tf.GradientTape() as tape:
        tape.watch([w, b, x])
        losses = tf_hsm.hierarchical_softmax_loss(
            w, b, labels, x, TREE, logit_soft_cap=cap, z_loss=z_loss
        )
        total = tf.reduce_sum(tf.cast(scale, losses.dtype) * losses)
    gradients = tape.gradient(total, [w, b, x])
    stored, summed = ROUNDING[dtype]
    np.testing.assert_allclose(losses, want, rtol=summed, atol=5 * summed)
    for got, wanted in zip(gradients, want_gradients, strict=True):
        got = tf.cast(tf.convert_to_tensor(got), tf.float64)
        np.testing.assert_allclose(got, wanted, rtol=stored, atol=20 * stored)


def test_answers():
    """Every answer is one of the capped logits."""
    cap = 1.5
    w, b, labels, x = problem()
    head = tf_hsm.TreeHead(w, b, TREE, logit_soft_cap=cap)
    want = tf.nn.log_softmax(oracle_logits(w, b, x, cap))
    np.testing.assert_allclose(head.log_probs(x), want, atol=1e-13)
    of_labels = tf.gather(want, labels, batch_dims=1)
    np.testing.assert_allclose(head.loss(labels, x), -of_labels, atol=1e-13)
    candidates = np.stack([labels, (labels + 3) % CLASSES], -1)
    given = head.log_prob(candidates, x)
    np.testing.assert_allclose(
        given, tf.gather(want, candidates, batch_dims=1), atol=1e-13
    )
    found, best = head.top_k(x, 5), tf.math.top_k(want, 5)
    np.testing.assert_allclose(found.log_probs, best.values, atol=1e-13)
    np.testing.assert_array_equal(found.classes, best.indices)
    allowed = [3, 4, 5]
    renormalized = head.top_k(x, 3, allowed=allowed, renormalize=True)
    np.testing.assert_allclose(
        tf.reduce_sum(tf.exp(renormalized.log_probs), -1), 1, atol=1e-13
    )
    np.testing.assert_allclose(
        tf.reduce_max(renormalized.log_probs, -1),
        tf.reduce_max(tf.nn.log_softmax(want[:, 3:6]), -1),
        atol=1e-13,
    )


def test_gradient_of_log_probs():
    """The gradient of all log-probabilities, by everything."""
    cap = 1.5
    w, b, _, x = problem()
    scale = np.random.default_rng(1).normal(size=[BATCH, CLASSES])
    found = []
    for log_probs in (
        lambda: tf_hsm.hierarchical_softmax_log_probs(
            w, b, x, TREE, logit_soft_cap=cap
        ),
        lambda: tf.nn.log_softmax(oracle_logits(w, b, x, cap)),
    ):
        with tf.GradientTape() as tape:
            tape.watch([w, b, x])
            total = tf.reduce_sum(scale * log_probs())
        found.append(tape.gradient(total, [w, b, x]))
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(got), want, atol=1e-11)


def test_samples():
    """Draws follow the capped probabilities, not the others."""
    cap, draws = 1.0, 200_000
    w, b, _, x = problem()
    want = tf.nn.softmax(oracle_logits(w, b, x[:1], cap)).numpy()[0]
    drawn = tf_hsm.hierarchical_softmax_sample(
        w, b, x[:1], TREE, draws, seed=3, logit_soft_cap=cap
    )
    counts = np.bincount(drawn.numpy()[0], minlength=CLASSES)
    deviation = np.sqrt(draws * want * (1 - want))
    assert np.all(np.abs(counts - draws * want) < 5 * deviation)
