"""LabelTree: log-probabilities of all labels and of nodes, and beams."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import label_tree_reference as reference
from tf_hsm.layers import LabelTree

WIDTH, N = 6, 60
TREE = tf_hsm.Tree.balanced(N, [3, 4, 5])


def made(dtype="float64", **options):
    """A head with random weights, and inputs `[2, 5, WIDTH]`."""
    head = LabelTree(TREE, dtype=dtype, **options)
    head.build([None, WIDTH])
    rng = np.random.default_rng(0)
    for variable in head.row_variables():
        variable.assign(rng.normal(size=variable.shape))
    return head, rng.normal(size=[2, 5, WIDTH])


def expected(head, x):
    """The log-probabilities `[2, 5, N]` of all labels, in NumPy."""
    bias = None if head.bias is None else head.bias.numpy()
    flat = x.reshape(-1, WIDTH)
    found = reference.label_log_probs(head.kernel.numpy(), bias, flat, TREE)
    return found.reshape(2, 5, N)


@pytest.mark.parametrize("use_bias", [True, False])
def test_log_probs(use_bias):
    head, x = made(use_bias=use_bias)
    found = head.log_probs(x)
    assert found.dtype == tf.float64
    np.testing.assert_allclose(found, expected(head, x), rtol=1e-10)
    np.testing.assert_array_equal(head.log_probs(x[0, 1]), found[0, 1])
    assert head.log_probs(x[:0]).shape == [0, 5, N]


def test_log_probs_of_nodes():
    """An inner node is at least as probable as each label below it."""
    head, x = made()
    found = head.log_probs(x, nodes=True).numpy()
    assert found.shape == (2, 5, TREE.num_rows)
    labels = head.log_probs(x).numpy()
    np.testing.assert_array_equal(found[..., TREE.class_rows], labels)
    rows = np.broadcast_to([0, 5, 14], [2, 5, 3])
    np.testing.assert_array_equal(
        head.log_prob(rows, x, nodes=True), found[..., [0, 5, 14]]
    )
    below = reference.classes_below(TREE)
    for row in (0, 5, 14):
        most = labels[..., below[row] > 0].max(-1)
        assert (found[..., row] > most).all()
    # In a row of the root's group there is nothing but its own sigmoid.
    z = x @ head.kernel.numpy()[0] + head.bias.numpy()[0]
    np.testing.assert_allclose(found[..., 0], -np.log1p(np.exp(-z)), 1e-10)


def test_log_prob_of_allowed_labels():
    head, x = made()
    labels = np.broadcast_to([1, 7, 59], [2, 5, 3])
    found = head.log_prob(labels, x, allowed=[7, 8]).numpy()
    assert np.isneginf(found[..., [0, 2]]).all()
    np.testing.assert_array_equal(
        found[..., 1], head.log_prob(labels, x)[..., 1]
    )
    with pytest.raises(ValueError, match="renormalize is not possible"):
        head.log_prob(labels, x, allowed=[7, 8], renormalize=True)


def test_beams():
    """Exact where nothing was left out; and as outputs of a model."""
    head, x = made("float32")
    # Some inputs are sure of a few labels.
    x *= np.geomspace(0.2, 5, 5)[:, np.newaxis]
    exact = head.top_k(x, 1)
    beam = head.top_k(x, 1, beam_width=1, return_pruned=True)
    is_whole = beam.num_pruned.numpy() == 0
    assert is_whole.any() and not is_whole.all()
    np.testing.assert_array_equal(
        beam.classes[is_whole], exact.classes[is_whole]
    )
    wide = head.top_k(x, 1, beam_width=TREE.num_groups, return_pruned=True)
    assert not wide.num_pruned.numpy().any()
    np.testing.assert_array_equal(wide.classes, exact.classes)
    inputs = keras.Input([5, WIDTH])
    outputs = head.top_k(inputs, 1, beam_width=1, return_pruned=True)
    found = keras.Model(inputs, list(outputs))(x)
    for one, other in zip(found, beam, strict=True):
        np.testing.assert_array_equal(one, other)
