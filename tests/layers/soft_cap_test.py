"""`logit_soft_cap` and `z_loss` of `HierarchicalSoftmax`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm

CLASSES, WIDTH, BATCH = 60, 8, 40
TREE = tf_hsm.Tree.flat(CLASSES)


def data():
    """(inputs, labels)."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=[BATCH, WIDTH]).astype("float32")
    return 3 * x, rng.integers(0, CLASSES, BATCH)


def model_of(**options):
    """A model of one head, compiled; its weights depend on the seed alone."""
    head = tf_hsm.layers.HierarchicalSoftmax(
        TREE,
        kernel_initializer=keras.initializers.RandomNormal(seed=4),
        name="head",
        **options,
    )
    model = keras.Sequential([keras.Input([WIDTH]), head])
    metrics = [tf_hsm.metrics.Perplexity(head)]
    model.compile(tf_hsm.optimizers.SGD(0.5), head.loss, metrics=metrics)
    return model, head


def dense_losses(head, x, y, z_loss=0.0):
    """The mean loss of a Dense layer with the rows of the head."""
    logits = x @ tf.transpose(head.kernel) + head.bias
    if head.logit_soft_cap is not None:
        logits = head.logit_soft_cap * tf.tanh(logits / head.logit_soft_cap)
    sums = tf.reduce_logsumexp(logits, -1)
    losses = sums - tf.gather(logits, y, batch_dims=1)
    return tf.reduce_mean(losses + z_loss * tf.square(sums))


def check_evaluation(model, head, x, y):
    """Asserts that the loss has the z-loss 0.25, and perplexity has none."""
    plain = dense_losses(head, x, y)
    np.testing.assert_allclose(
        model.evaluate(x, y, verbose=0),
        [dense_losses(head, x, y, 0.25), np.exp(plain)],
        rtol=1e-5,
    )


@pytest.mark.parametrize("in_place", [False, True])
def test_fit(in_place):
    """The loss has both; perplexity has no z-loss."""
    x, y = data()
    own = {"optimizer": tf_hsm.optimizers.SGD(0.5)} if in_place else {}
    model, head = model_of(logit_soft_cap=2.0, z_loss=0.25, **own)
    rows = [tf.Variable(head.kernel), tf.Variable(head.bias)]
    with tf.GradientTape() as tape:
        logits = x @ tf.transpose(rows[0]) + rows[1]
        logits = 2 * tf.tanh(logits / 2)
        sums = tf.reduce_logsumexp(logits, -1)
        losses = sums - tf.gather(logits, y, batch_dims=1)
        loss = tf.reduce_mean(losses + 0.25 * tf.square(sums))
    gradients = tape.gradient(loss, rows)
    history = model.fit(x, y, batch_size=BATCH, verbose=0).history
    np.testing.assert_allclose(history["loss"], [loss], rtol=1e-5)
    for got, row, gradient in zip(
        [head.kernel, head.bias], rows, gradients, strict=True
    ):
        np.testing.assert_allclose(got, row - 0.5 * gradient, atol=1e-5)
    check_evaluation(model, head, x, y)


def test_saving(tmp_path):
    """A saved layer answers with its cap and goes on with its z-loss."""
    x, y = data()
    model, _ = model_of(logit_soft_cap=2.0, z_loss=0.25)
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    head = again.get_layer("head")
    assert (head.logit_soft_cap, head.z_loss) == (2.0, 0.25)
    np.testing.assert_array_equal(
        head.log_probs(x), model.get_layer("head").log_probs(x)
    )
    check_evaluation(again, head, x, y)


@pytest.mark.parametrize(
    "tree, options, message",
    [
        (tf_hsm.Tree.two_level(99), {"z_loss": 0.1}, "z_loss is for"),
        (tf_hsm.Tree.flat(8), {"logit_soft_cap": 2.0}, "at least 9 classes"),
        (TREE, {"logit_soft_cap": -1.0}, "positive number or None"),
        (
            TREE,
            {"logit_soft_cap": 2.0, "label_smoothing": 0.1},
            "exclude each other",
        ),
        (TREE, {"z_loss": 0.1, "focal_gamma": 1.0}, "leave out focal_gamma"),
        (TREE, {"z_loss": -0.1}, "z_loss is -0.1"),
        (TREE, {"logit_soft_cap": True}, "positive number or None"),
        (
            tf_hsm.Tree.two_level(99),
            {"z_loss": 0.1, "devices": ["CPU:0"]},
            "not possible with devices",
        ),
    ],
)
def test_refusals(tree, options, message):
    """The message says what is possible."""
    with pytest.raises(ValueError, match=message):
        tf_hsm.layers.HierarchicalSoftmax(tree, **options)


def test_tied():
    """A head that is tied with an embedding has both too."""
    x, y = data()
    embedding = keras.layers.Embedding(CLASSES, WIDTH)
    head = tf_hsm.layers.HierarchicalSoftmax(
        TREE, tied_to=embedding, logit_soft_cap=0.5, z_loss=0.25
    )
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile("sgd", head.loss)
    embedding.embeddings.assign(20 * embedding.embeddings)
    before = dense_losses(head, x, y, 0.25)
    history = model.fit(x, y, batch_size=BATCH, verbose=0).history
    np.testing.assert_allclose(history["loss"], [before], rtol=1e-5)
    log_probs = tf.gather(head.log_probs(x), y, batch_dims=1)
    np.testing.assert_allclose(
        -tf.reduce_mean(log_probs), dense_losses(head, x, y), rtol=1e-5
    )
