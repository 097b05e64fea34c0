"""Forward mode is refused; recomputation works."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import heads_by_name
from tests.support.heads_by_name import BATCH, TREE, WIDTH
from tests.support.training import assert_same

Y = tf.range(BATCH)
FUNCTIONS = {
    "loss": lambda w, x: tf_hsm.hierarchical_softmax_loss(w, None, Y, x, TREE),
    "label_tree_loss": lambda w, x: tf_hsm.label_tree_loss(
        w, None, Y[:, None], x, TREE
    ),
    "log_probs": lambda w, x: tf_hsm.hierarchical_softmax_log_probs(
        w, None, x, TREE
    ),
    "top_k": lambda w, x: tf_hsm.hierarchical_softmax_top_k(
        w, None, x, TREE, 2
    )[0],
}


@pytest.mark.parametrize("watched", ["weights", "variable", "inputs"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_mode(name, watched):
    """Only where something that the op reads is watched."""
    weights = tf.random.stateless_normal([TREE.num_rows, WIDTH], [0, 1])
    weights = tf.Variable(weights) if watched == "variable" else weights
    x = heads_by_name.inputs("LabelTree")
    primal = x if watched == "inputs" else weights
    with (
        tf.autodiff.ForwardAccumulator(primal, tf.ones_like(primal)),
        pytest.raises(LookupError, match=r"tf\.GradientTape only: no forward"),
    ):
        FUNCTIONS[name](weights, x)
    other = tf.ones([2])
    with tf.autodiff.ForwardAccumulator(other, other) as accumulator:
        found = FUNCTIONS[name](weights, x)
        doubled = 2 * other
    np.testing.assert_array_equal(accumulator.jvp(doubled), [2, 2])
    np.testing.assert_array_equal(found, FUNCTIONS[name](weights, x))


def test_forward_mode_of_a_step():
    """Before anything has moved."""
    head = heads_by_name.built("HierarchicalSoftmax", optimizer="sgd")
    x = heads_by_name.inputs("HierarchicalSoftmax")
    before = head.kernel.numpy()
    with (
        tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)),
        pytest.raises(LookupError, match="no forward mode"),
    ):
        head(x, Y)
    np.testing.assert_array_equal(head.kernel, before)
    assert head.optimizer.iterations == 0


def recomputed(name, graph, wrap):
    """Returns the gradient below a head with SGD, and its kernel then."""
    head = heads_by_name.built(name, optimizer="sgd")
    x, labels = heads_by_name.inputs(name), heads_by_name.labels(name)
    dense = keras.layers.Dense(WIDTH, kernel_initializer="identity")
    dense(x)

    def loss(x):
        return tf.reduce_mean(head.label_losses(labels, dense(x)))

    def gradient(x):
        with tf.GradientTape() as tape:
            value = wrap(loss)(x)
        return tape.gradient(value, dense.kernel.value)

    before = head.kernel.numpy()
    found = (tf.function(gradient) if graph else gradient)(x)
    assert head.optimizer.iterations == 1
    assert np.any(head.kernel.numpy() != before)
    return found, head.kernel


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("name", ["HierarchicalSoftmax", "LabelTree"])
def test_recomputed_steps(name, graph):
    """A head's own optimizer makes one step, as without recomputation."""
    wanted = recomputed(name, graph, lambda loss: loss)
    found = recomputed(name, graph, tf.recompute_grad)
    assert_same(found, wanted)
