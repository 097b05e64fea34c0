"""`TreeHead`: the functions of one tree as methods, without Keras."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle
from tests.support.masks import TREE
from tf_hsm.heads.tree_head import RowShares

# Methods, and the functions that they stand for.
FUNCTIONS = {
    "loss": tf_hsm.hierarchical_softmax_loss,
    "train_step": tf_hsm.hierarchical_softmax_train_step,
    "log_probs": tf_hsm.hierarchical_softmax_log_probs,
    "log_prob": tf_hsm.hierarchical_softmax_log_prob,
    "top_k": tf_hsm.hierarchical_softmax_top_k,
    "sample": tf_hsm.hierarchical_softmax_sample,
}


def problem(dtype=np.float64, seed=0):
    found = oracle.random_problem(TREE, 9, 5, dtype, seed)
    weights, biases = map(tf.Variable, (found.weights, found.biases))
    return tf_hsm.TreeHead(weights, biases, TREE), found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature(name):
    """A method takes what its function does, but for what the head has."""
    own = inspect.signature(getattr(tf_hsm.TreeHead, name)).parameters
    given = inspect.signature(FUNCTIONS[name]).parameters
    known = {"self", "weights", "biases", "tree", "logit_soft_cap"}
    assert own.keys() - known == given.keys() - known
    for key in own.keys() - known:
        assert own[key].default == given[key].default
        assert own[key].kind == given[key].kind


def test_loss_and_step():
    """The step moves the weights by the gradient of the smoothed loss."""
    prior = RowShares(TREE.row_shares(1.0 + np.arange(TREE.num_classes)))
    options = {"label_smoothing": 0.2, "smoothing_prior": prior.tensor(None)}
    head, found = problem()
    with tf.GradientTape() as tape:
        losses = head.loss(found.labels, found.inputs, **options)
        total = tf.reduce_mean(losses)
    gradients = tape.gradient(total, head.variables())
    wanted = [
        v.numpy() - 0.5 * tf.convert_to_tensor(g).numpy()
        for v, g in zip(head.variables(), gradients, strict=True)
    ]
    optimizer = tf_hsm.optimizers.SGD(0.5)
    optimizer.build(head.variables())
    made = head.train_step(found.labels, found.inputs, optimizer, **options)
    np.testing.assert_array_equal(made, losses)
    for variable, values in zip(head.variables(), wanted, strict=True):
        np.testing.assert_allclose(variable, values, rtol=1e-12)


def test_of_tensors():
    """Weights may be tensors, and there may be no biases."""
    found = oracle.random_problem(TREE, 9, 5, np.float64)
    head = tf_hsm.TreeHead(tf.constant(found.weights), None, TREE)
    wanted, bound = oracle.hierarchical_softmax(
        TREE,
        oracle.Problem(
            found.inputs, found.labels, found.weights, None, found.upstream
        ),
    )
    losses = head.loss(found.labels, found.inputs).numpy()
    assert (abs(losses - wanted.loss) <= bound.loss).all()
    assert len(head.variables()) == 1 and head.on_one_device() is head
