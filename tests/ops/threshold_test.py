"""`hierarchical_softmax_top_k` with a threshold, a probability."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle, trees

top_k = tf_hsm.hierarchical_softmax_top_k

TREES = {
    "flat": trees.CATALOGUE["flat"],
    "two_level": trees.CATALOGUE["two_level_100"],
    "huffman": trees.CATALOGUE["huffman_4ary"],
    "pinned": lambda: trees.CATALOGUE["huffman_2ary"]().pin(),
}
BATCH = 6


def case(name):
    """A tree, arguments of ops, and all probabilities `[B, N]`."""
    tree = TREES[name]()
    problem = oracle.random_problem(tree, BATCH, 5, np.float64)
    rows = slice(tree.num_weight_rows)
    arguments = problem.weights[rows], problem.biases[rows], problem.inputs
    log_probs = tf_hsm.hierarchical_softmax_log_probs(*arguments, tree)
    return tree, arguments, np.exp(log_probs)


@pytest.mark.parametrize("name", TREES)
def test_threshold(name):
    """All classes above it are found, as by bounds of its logarithm."""
    tree, arguments, probs = case(name)
    # Between two probabilities, not at one, whose logarithm rounds.
    thresholds = np.median(probs, 1) * (1 - 1e-9)
    thresholds[:2] = 0, 1.1
    for threshold in (thresholds, thresholds[3], tf.constant(thresholds[3])):
        found = top_k(*arguments, tree, tree.num_classes, threshold=threshold)
        for i, row in enumerate(found.classes.numpy()):
            least = np.broadcast_to(threshold, [BATCH])[i]
            above = np.flatnonzero(probs[i] >= least)
            assert set(row[row >= 0]) == set(above)
            assert (row[above.size :] == -1).all()
            assert np.all(np.isneginf(found.log_probs[i][above.size :]))
        bounds = np.full(BATCH, np.log(np.maximum(threshold, 1e-300)))
        bounds[np.broadcast_to(threshold, [BATCH]) == 0] = -np.inf
        same = top_k(*arguments, tree, tree.num_classes, bounds=bounds)
        for one, other in zip(found, same, strict=True):
            np.testing.assert_array_equal(one, other)


def test_k_at_most():
    """A threshold does not ask for more classes than k."""
    tree, arguments, _ = case("two_level")
    found = top_k(*arguments, tree, 3, threshold=1e-9)
    for one, other in zip(found, top_k(*arguments, tree, 3), strict=True):
        np.testing.assert_array_equal(one, other)


def test_shapes_and_graphs():
    """One threshold, or one for each input, of any leading shape."""
    tree, (weights, biases, inputs), probs = case("huffman")
    inputs = inputs.reshape(3, 2, -1)
    thresholds = np.median(probs, 1).reshape(3, 2) * (1 - 1e-9)

    def run(inputs, threshold):
        return top_k(weights, biases, inputs, tree, 5, threshold=threshold)

    eager = run(inputs, thresholds)
    specs = [tf.TensorSpec(None, tf.float64), tf.TensorSpec(None, tf.float64)]
    traced = tf.function(run, input_signature=specs)(inputs, thresholds)
    assert eager.classes.shape == [3, 2, 5]
    for one, other in zip(eager, traced, strict=True):
        np.testing.assert_array_equal(one, other)
    one = run(inputs[1, 1], thresholds[1, 1])
    np.testing.assert_array_equal(one.classes, eager.classes[1, 1])


def test_wrong_thresholds():
    tree, arguments, _ = case("flat")
    with pytest.raises(ValueError, match="threshold and bounds are both"):
        top_k(*arguments, tree, 3, threshold=0.5, bounds=np.zeros(BATCH))
    wrong = ValueError, tf.errors.InvalidArgumentError
    for threshold in (np.nan, [np.nan] * BATCH):
        with pytest.raises(wrong, match="must not be NaN"):
            top_k(*arguments, tree, 3, threshold=threshold)
    with pytest.raises(wrong, match="threshold"):
        top_k(*arguments, tree, 3, threshold=[0.5, 0.5])
