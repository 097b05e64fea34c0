"""The forms in which lists of allowed classes are given, and wrong ones."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import forests, masks

top_k = tf_hsm.hierarchical_softmax_top_k
log_prob = tf_hsm.hierarchical_softmax_log_prob
sample = tf_hsm.hierarchical_softmax_sample


def test_forms_of_lists():
    """Booleans, ids in any order and twice, padded and ragged: one answer."""
    arguments = masks.random_arguments(masks.TREE)
    mask = masks.random_mask(masks.TREE, 0.2, 1)
    classes = masks.padded(mask)[0]
    many = np.tile(classes, [masks.BATCH, 1])
    forms = [
        mask[0],
        tf.constant(mask[0]),
        classes.tolist(),
        classes.astype(np.int32),
        np.concatenate([classes[::-1], classes, [-1]]),
        many,
        np.pad(many, [[0, 0], [3, 2]], constant_values=-1),
        tf.RaggedTensor.from_tensor(many),
    ]
    want = top_k(*arguments, masks.TREE, 5, allowed=classes, renormalize=True)
    for form in forms:
        found = top_k(*arguments, masks.TREE, 5, allowed=form, renormalize=True)
        for one, other in zip(found, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    mask = masks.random_mask(masks.TREE, 0.2, masks.BATCH)
    lists = [np.flatnonzero(row) for row in mask]
    ragged = tf.ragged.constant(lists, dtype=tf.int64)
    found = top_k(*arguments, masks.TREE, 5, allowed=ragged)
    masks.check(
        found, masks.wanted(masks.TREE, arguments, mask), mask, 5, exact=True
    )


@pytest.mark.parametrize("leading", [[], [0], [3, 2], [1]])
def test_shapes_in_graphs(leading):
    """Graphs that do not know the leading shape take any."""
    batch = int(np.prod(leading))
    weights, biases, x = masks.random_arguments(masks.TREE, batch)
    mask = masks.random_mask(masks.TREE, 0.2, max(batch, 1))
    classes = masks.padded(mask)[:batch]
    asked = np.random.default_rng(0).integers(60, size=[batch, 6])

    def run(inputs, allowed, asked):
        arguments = weights, biases, inputs, masks.TREE
        options = {"allowed": allowed}
        return (
            *top_k(*arguments, 4, **options, renormalize=True),
            log_prob(weights, biases, asked, *arguments[2:], **options),
            sample(*arguments, 3, seed=1, **options),
        )

    want = run(x, classes, asked)
    rank = len(leading) + 1
    spec = [
        tf.TensorSpec(None),
        tf.TensorSpec([None] * rank, tf.int64),
        tf.TensorSpec(None, tf.int64),
    ]
    found = tf.function(run, input_signature=spec)(
        x.reshape([*leading, 5]),
        classes.reshape([*leading, classes.shape[-1]]),
        asked.reshape([*leading, 6]),
    )
    for one, other in zip(found, want, strict=True):
        assert one.shape == [*leading, other.shape[-1]]
        np.testing.assert_allclose(
            np.reshape(one, other.shape), other, rtol=1e-6
        )


@pytest.mark.parametrize(
    "allowed, error, message",
    [
        ([60], tf.errors.InvalidArgumentError, r"outside.*\[0, 60\)"),
        ([3, -2], tf.errors.InvalidArgumentError, r"outside.*\[0, 60\)"),
        ([1.5], TypeError, "allowed must be integers, but are float32"),
        (7, ValueError, "allowed must be a list of classes"),
        (
            np.ones([masks.BATCH - 1, 3], int),
            tf.errors.InvalidArgumentError,
            "allowed must have the shape",
        ),
        (
            np.ones([59], bool),
            tf.errors.InvalidArgumentError,
            "allowed must have a boolean for each class",
        ),
        (
            np.ones([masks.BATCH, 60], bool),
            ValueError,
            "allowed must have the shape",
        ),
    ],
)
def test_lists_that_are_none(allowed, error, message):
    weights, biases, x = masks.random_arguments(masks.TREE)
    with pytest.raises(error, match=message):
        top_k(weights, biases, x, masks.TREE, 3, allowed=allowed)
    with pytest.raises(error, match=message):
        sample(weights, biases, x, masks.TREE, 3, seed=1, allowed=allowed)
    with pytest.raises(error, match=message):
        asked = np.zeros([masks.BATCH, 1], int)
        log_prob(weights, biases, asked, x, masks.TREE, allowed=allowed)


def test_unsigned_ragged_and_empty():
    """Padding is no class, though 255 is one, and -1 in uint8 is 255."""
    tree = tf_hsm.Tree.two_level(300)
    arguments = masks.random_arguments(tree, batch=2)
    ragged = tf.ragged.constant([[3, 9], [7]], dtype=tf.uint8)
    best = top_k(*arguments, tree, 3, allowed=ragged).classes.numpy()
    assert [set(row) for row in best] == [{3, 9, -1}, {7, -1}]
    empty = top_k(*arguments, tree, 1, allowed=[]).classes
    np.testing.assert_array_equal(empty, [[-1], [-1]])


@pytest.mark.parametrize("count", [-2, 61])
def test_a_tensor_of_too_few_or_many(count):
    arguments = masks.random_arguments(masks.TREE)
    for allowed in (None, [4, 30]):
        with pytest.raises(
            (tf.errors.InvalidArgumentError, ValueError),
            match=r"outside \[1, 60\]",
        ):
            sample(
                *arguments,
                masks.TREE,
                3,
                seed=1,
                top_k=tf.constant(count),
                allowed=allowed,
            )
        with pytest.raises(TypeError):
            sample(*arguments, masks.TREE, 2.5, seed=1, allowed=allowed)


def test_options_that_do_not_fit():
    weights, biases, x = masks.random_arguments(masks.TREE)
    asked = np.zeros([masks.BATCH, 1], int)
    with pytest.raises(ValueError, match="renormalize needs allowed"):
        top_k(weights, biases, x, masks.TREE, 3, renormalize=True)
    with pytest.raises(ValueError, match="one of nodes and allowed"):
        log_prob(weights, biases, asked, x, masks.TREE, nodes=True, allowed=[1])
    tree = forests.TREES["binary"]()
    forest = forests.cut(tree, forests.some_rows(tree, 1)).forest
    arguments = masks.random_arguments(forest)
    with pytest.raises(ValueError, match="renormalize needs root_log_probs"):
        top_k(*arguments, forest, 3, allowed=[1], renormalize=True)
    with pytest.raises(ValueError, match="root_log_probs must be there"):
        sample(*arguments, forest, 3, allowed=[1])
    with pytest.raises(ValueError, match="top_p = 2 is not in"):
        sample(weights, biases, x, masks.TREE, 3, top_p=2, allowed=[1])
