"""The loss function beyond its values, which conformance_test checks."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle
from tf_hsm import hierarchical_softmax_loss as loss_function

TREE = tf_hsm.Tree.two_level(200)
DIM = 24


def problem(tree=TREE):
    """(weights, biases, labels, inputs) as NumPy arrays."""
    found = oracle.random_problem(tree, 64, DIM, np.float32)
    return found.weights, found.biases, found.labels, found.inputs


def gradients(weights, biases, labels, inputs):
    """The loss and its gradients (dw, db, dx), of tensors too."""
    sources = [weights, biases, tf.convert_to_tensor(inputs)]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        losses = loss_function(weights, biases, labels, sources[2], TREE)
    return losses, *tape.gradient(losses, sources)


def test_unknown_shapes():
    """A function traced for any rank runs, and knows what it can."""
    w, b, y, x = problem()

    @tf.function(
        input_signature=[tf.TensorSpec(None, tf.int64), tf.TensorSpec(None)]
    )
    def run(labels, inputs):
        return loss_function(w, b, labels, inputs, TREE)

    np.testing.assert_array_equal(run(y, x), loss_function(w, b, y, x, TREE))
    traced = run.get_concrete_function()
    assert traced.structured_outputs.shape.rank is None


def test_tree_is_captured_not_copied():
    """A function's graph holds none of the arrays of a larger tree."""
    tree = tf_hsm.Tree.two_level(5000)
    w, b, y, x = problem(tree=tree)
    w, b, x = tf.Variable(w), tf.Variable(b), tf.constant(x)
    function = tf.function(lambda: loss_function(w, b, y, x, tree))
    graph = function.get_concrete_function().graph.as_graph_def()
    assert graph.ByteSize() < 8 * tree.num_classes


def test_mixed_types():
    """Inputs keep their own type, and so does their gradient."""
    w, b, y, x = problem()
    w, b = tf.Variable(w), tf.Variable(b)
    exact = gradients(w, b, y, tf.cast(tf.cast(x, tf.bfloat16), tf.float32))
    losses, dw, _, dx = gradients(w, b, y, tf.cast(x, tf.bfloat16))
    assert losses.dtype == tf.float32
    assert dw.dtype == tf.float32 and dx.dtype == tf.bfloat16
    np.testing.assert_array_equal(losses, exact[0])
    np.testing.assert_array_equal(dx, tf.cast(exact[3], tf.bfloat16))


def test_variable_beside_tensor():
    """Weights and biases may be of different kinds."""
    w, b, y, x = problem()
    want = loss_function(w, b, y, x, TREE)
    for weights, biases in [
        (tf.Variable(w), tf.constant(b)),
        (tf.constant(w), tf.Variable(b)),
    ]:
        losses, dw, db, _ = gradients(weights, biases, y, x)
        np.testing.assert_array_equal(losses, want)
        assert dw is not None and db is not None


def test_extreme_logits():
    """Beyond |z| = 90 nothing overflows, and a masked class has no mass."""
    tree = tf_hsm.Tree.balanced(9, 9)
    w = np.linspace(-3000, 3000, 9, dtype=np.float32)[:, np.newaxis]
    b = np.zeros(9, np.float32)
    b[4] = -np.inf
    x = np.ones((3, 1), np.float32)
    losses = loss_function(w, b, [8, 0, 4], x, tree).numpy()
    np.testing.assert_array_equal(losses, [0, 6000, np.inf])


@pytest.mark.parametrize("fanout", [2, 20])
def test_large_logits_keep_their_digits(fanout):
    """A small loss of large logits is as exact as TensorFlow's own."""
    tree = tf_hsm.Tree.balanced(fanout, fanout)
    w = np.full((fanout, 1), 990, np.float32)
    w[0] = 1000
    loss = loss_function(w, None, [0], np.ones((1, 1), np.float32), tree)
    want = np.log1p((fanout - 1) * np.exp(-10.0))
    # The sum of exponentials, about 1, is rounded to 6e-8.
    np.testing.assert_allclose(loss, [want], rtol=2e-3)


def test_lists_take_the_type_of_the_weights():
    """Biases, labels and inputs may be lists."""
    tree = tf_hsm.Tree.balanced(2, 2)
    loss = loss_function(np.eye(2), [0.5, 0.5], [1], [[1.0, 1.0]], tree)
    assert loss.dtype == tf.float64
    np.testing.assert_allclose(loss, [np.log(2)])


def test_memory_that_is_not_aligned():
    """Tensors that share the memory of others may begin anywhere."""
    w, _, y, x = problem()
    want = loss_function(w, None, y, x, TREE)
    shifted = np.zeros(x.size + 1, np.float32)[1:].reshape(x.shape)
    shifted[:] = x
    shared = tf.experimental.dlpack.from_dlpack(shifted.__dlpack__())
    np.testing.assert_array_equal(loss_function(w, None, y, shared, TREE), want)


def test_a_graph_of_tensorflow_1_leaves_no_trace():
    """A tree works in plain graphs and eagerly, whichever comes first."""
    tree = tf_hsm.Tree.balanced(7, 3)
    w, _, y, x = problem(tree=tree)
    for _ in range(2):
        with tf.Graph().as_default():
            loss_function(tf.constant(w), None, y, tf.constant(x), tree)
        assert loss_function(w, None, y, x, tree).shape == y.shape


def test_nan_input_stays_in_its_row():
    """A NaN gives a NaN loss to its example and to no other."""
    w, b, y, x = problem()
    want = loss_function(w, b, y, x, TREE).numpy()
    x[3, 2] = np.nan
    losses = loss_function(w, b, y, x, TREE).numpy()
    assert np.isnan(losses[3])
    np.testing.assert_array_equal(np.delete(losses, 3), np.delete(want, 3))


@pytest.mark.parametrize("first_update", [False, True])
def test_reads_what_an_update_wrote(first_update):
    """Before and after the first sparse update, which sets copy-on-read."""
    w, b, y, x = problem()
    w, b = tf.Variable(w), tf.Variable(b)
    if first_update:
        w.scatter_sub(tf.IndexedSlices(tf.ones((1, DIM)), [0]))
    losses, dw, *_ = gradients(w, b, y, x)
    w.scatter_sub(dw)
    after = loss_function(w, b, y, x, TREE)
    assert np.sum(after) < np.sum(losses)
    np.testing.assert_array_equal(
        after, loss_function(w.numpy(), b.numpy(), y, x, TREE)
    )


def test_large_gradients_are_memory_of_their_own():
    """Pooled outputs that are still held are not given out again."""
    tree = tf_hsm.Tree.two_level(1_000_000)
    w, b, _, x = problem(tree=tree)
    w, b = tf.Variable(w), tf.Variable(b)

    def weight_gradient(labels):
        with tf.GradientTape() as tape:
            losses = loss_function(w, b, labels, x, tree)
        return tape.gradient(losses, w)

    labels = np.linspace(0, 999_999, len(x)).astype(np.int64)
    first = weight_gradient(labels)
    assert first.values.shape[0] * DIM * 4 > 4 << 20
    copy = first.values.numpy().copy()
    for _ in range(3):
        other = weight_gradient(labels[::-1].copy())
        assert not np.array_equal(other.values, copy)
    np.testing.assert_array_equal(first.values, copy)
    del first, other
    np.testing.assert_array_equal(weight_gradient(labels).values, copy)
