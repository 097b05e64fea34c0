"""A quantized `LabelTree` has the losses of the decoded rows."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm

WIDTH, EXAMPLES = 65, 24
TREES = {
    "two levels": tf_hsm.Tree.two_level(300),
    "binary": tf_hsm.Tree.balanced(100, 2),
    "huffman": tf_hsm.Tree.huffman(1 / np.arange(1, 90)),
    "flat": tf_hsm.Tree.flat(70),
}


def make_data(tree):
    """Inputs, and labels of which some repeat; some inputs have none."""
    rng = np.random.default_rng(tree.num_rows)
    x = rng.normal(size=[EXAMPLES, WIDTH]).astype("float32")
    y = rng.integers(-20, tree.num_classes, size=[EXAMPLES, 5])
    y[:, 3] = y[:, 1]
    y[7] = -1
    return x, y


def make_head(name, mode, scale=1.0):
    """A quantized head whose weights have a standard deviation of `scale`."""
    normal = keras.initializers.RandomNormal
    head = tf_hsm.layers.LabelTree(
        TREES[name],
        kernel_initializer=normal(stddev=scale, seed=1),
        bias_initializer=normal(stddev=scale, seed=2),
    )
    head.build([None, WIDTH])
    head.quantize(mode)
    return head


def expected_losses(head, x, labels):
    """See tests/ops/label_tree_test.py for the loss of rows of floats."""
    kernel, bias = head.kernel.numpy(), head.bias.numpy()
    return tf_hsm.label_tree_loss(kernel, bias, labels, x, head.tree).numpy()


def assert_close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("scale", [0.1, 10])
def test_losses_are_the_losses_of_the_decoded_rows(mode, name, scale):
    """Logits of up to 300 have log-probabilities that underflow."""
    x, labels = make_data(TREES[name])
    head = make_head(name, mode, scale)
    assert_close(head(x, labels), expected_losses(head, x, labels))


def test_shapes():
    x, labels = make_data(TREES["two levels"])
    head = make_head("two levels", "int8")
    expected = expected_losses(head, x, labels)
    ragged = tf.ragged.constant([[c for c in its if c >= 0] for its in labels])
    assert_close(head(x, ragged), expected)
    deep = head(x.reshape([4, 6, WIDTH]), labels.reshape([4, 6, 5]))
    assert_close(deep, expected.reshape([4, 6]))
    assert head(x[:0], labels[:0]).shape == (0,)
    nothing = labels[:, :0]
    assert_close(head(x, nothing), expected_losses(head, x, nothing))


def test_refusals():
    x, labels = make_data(TREES["two levels"])
    head = make_head("two levels", "int4")
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile("sgd", loss=head.loss)
    with pytest.raises(ValueError, match="quantized and cannot train"):
        model.fit(x, labels, verbose=0)
    with (
        tf.GradientTape(),
        pytest.raises(ValueError, match="quantized and cannot train"),
    ):
        head(x, labels * 0)
    labels[2, 1] = 300
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be below"):
        head(x, labels)
