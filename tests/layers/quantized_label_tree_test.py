"""Losses of a quantized `LabelTree`, against float64 in NumPy."""

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


def make_head(tree, scale=1.0, **options):
    normal = keras.initializers.RandomNormal
    head = tf_hsm.layers.LabelTree(
        tree,
        kernel_initializer=normal(stddev=scale, seed=1),
        bias_initializer=normal(stddev=scale, seed=2),
        **options,
    )
    head.build([None, WIDTH])
    return head


def expected_losses(head, x, labels):
    tree, rows = head.tree, head.kernel.numpy().astype("float64")
    z = x.astype("float64") @ rows.T
    if head.bias is not None:
        z += head.bias.numpy().astype("float64")
    losses = []
    for of_input, its in zip(z, labels, strict=True):
        positive = [r for c in its if c >= 0 for r in tree.path(c)]
        groups = [0, *tree.row_groups[positive]]
        signs = np.ones(tree.num_rows)
        signs[positive] = -1
        visited = np.isin(tree.row_groups, groups)
        losses.append(np.logaddexp(0, signs * of_input)[visited].sum())
    return np.array(losses)


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("scale", [0.1, 10])
def test_losses_are_the_losses_of_the_decoded_rows(mode, name, scale):
    """Logits of up to 300 have log-probabilities that underflow."""
    x, labels = make_data(TREES[name])
    head = make_head(TREES[name], scale)
    head.quantize(mode)
    expected = expected_losses(head, x, labels)
    found = head(x, labels).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    floats = tf_hsm.label_tree_loss(
        head.kernel.numpy(), head.bias.numpy(), labels, x, head.tree
    )
    np.testing.assert_allclose(found, floats, rtol=1e-5, atol=1e-5)


def test_evaluate():
    x, labels = make_data(TREES["two levels"])
    head = make_head(TREES["two levels"], use_bias=False, ignore_class=7)
    labels[3, 0] = 7
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.quantize("int8", filters=lambda layer: layer is head)
    model.compile(
        loss=head.loss, metrics=[tf_hsm.metrics.PrecisionAtK(head, 3)]
    )
    expected = expected_losses(head, x, np.where(labels == 7, -1, labels))
    loss, precision = model.evaluate(x, labels, batch_size=7, verbose=0)
    assert loss == pytest.approx(expected.mean(), rel=1e-5)
    assert 0 <= precision <= 1
    ragged = tf.ragged.constant([[c for c in its if c >= 0] for its in labels])
    np.testing.assert_allclose(head(x, ragged), expected, rtol=1e-5)
    mask = np.arange(EXAMPLES) % 3 != 1
    masked = head(x, labels, inputs_mask=mask)
    np.testing.assert_allclose(masked, expected * mask, rtol=1e-5)
    deep = head(x.reshape([4, 6, WIDTH]), labels.reshape([4, 6, 5]))
    np.testing.assert_allclose(
        deep, expected.reshape([4, 6]), rtol=1e-5, atol=1e-5
    )
    assert head(x[:0], labels[:0]).shape == (0,)
    nothing = head(x, labels[:, :0])
    np.testing.assert_allclose(
        nothing, expected_losses(head, x, labels[:, :0]), rtol=1e-5
    )


def test_refusals():
    x, labels = make_data(TREES["two levels"])
    head = make_head(TREES["two levels"])
    head.quantize("int4")
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile("sgd", loss=head.loss)
    with pytest.raises(ValueError, match="quantized and cannot train"):
        model.fit(x, labels, verbose=0)
    labels[2, 1] = 300
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be below"):
        head(x, labels)
    with (
        tf.GradientTape(),
        pytest.raises(ValueError, match="quantized and cannot train"),
    ):
        head(x, labels * 0)
