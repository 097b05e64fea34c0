"""Lists of allowed classes: their forms, and what is renormalized."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import masks, references, trees
from tests.support.references import FORESTS, build

top_k = tf_hsm.hierarchical_softmax_top_k
log_prob = tf_hsm.hierarchical_softmax_log_prob
sample = tf_hsm.hierarchical_softmax_sample


@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("name", [*trees.CATALOGUE, *FORESTS])
def test_renormalized(name, renormalize):
    """Those of all allowed classes then have the sum 1."""
    tree = build(name)
    weights, biases, x = arguments = masks.random_arguments(tree)
    starts = references.all_starts(tree, masks.BATCH, np.float32)[-1]
    options = {"root_log_probs": starts, "renormalize": renormalize}
    rng = np.random.default_rng(2)
    asked = rng.integers(tree.num_classes, size=[masks.BATCH, 9])
    for lists in (1, masks.BATCH):
        mask = masks.random_mask(tree, 0.4, lists)
        mask[:, :1] |= name in FORESTS
        options.pop("allowed", None)
        values = masks.wanted(tree, arguments, mask, **options)
        options["allowed"] = masks.lists_of(mask)
        found = log_prob(weights, biases, asked, x, tree, **options)
        wanted = np.take_along_axis(values, asked, -1)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        for k in sorted({1, tree.num_classes}):
            found = top_k(weights, biases, x, tree, k, **options)
            masks.check(found, values, mask, k, exact=False)
        sums = np.exp(found.log_probs).sum(1)
        has_any = np.broadcast_to(mask.any(1), [masks.BATCH])
        assert not renormalize or np.allclose(sums, has_any, rtol=1e-5)


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
    values = masks.wanted(masks.TREE, arguments, mask)
    masks.check(found, values, mask, 5, exact=True)


def test_unsigned_ragged_and_empty():
    """Padding is no class, though 255 is one, and -1 in uint8 is 255."""
    tree = tf_hsm.Tree.two_level(300)
    arguments = masks.random_arguments(tree, batch=2)
    ragged = tf.ragged.constant([[3, 9], [7]], dtype=tf.uint8)
    best = top_k(*arguments, tree, 3, allowed=ragged).classes.numpy()
    assert [set(row) for row in best] == [{3, 9, -1}, {7, -1}]
    empty = top_k(*arguments, tree, 1, allowed=[]).classes
    np.testing.assert_array_equal(empty, [[-1], [-1]])


def test_probabilities_of_zero_and_nan():
    """Allowed classes of zero come last; NaN counts as zero."""
    tree = tf_hsm.Tree.two_level(60)
    weights, biases, x = masks.random_arguments(tree)
    # Class 4 has no probability, nor has any of the group of class 59.
    biases[tree.class_rows[4]] = -np.inf
    biases[tree.class_rows[59]] = np.nan
    found = top_k(weights, biases, x, tree, 3, allowed=[4, 30])
    np.testing.assert_array_equal(found.classes, [[30, 4, -1]] * masks.BATCH)
    found = top_k(weights, biases, x, tree, 2, allowed=[4], renormalize=True)
    np.testing.assert_array_equal(
        found.log_probs, [[-np.inf] * 2] * masks.BATCH
    )
    for classes, drawn in (
        ([4], -1),
        ([58], -1),
        ([4, 30], 30),
        ([58, 30], 30),
        (np.zeros(0, int), -1),
    ):
        found = sample(weights, biases, x, tree, 2, seed=1, allowed=classes)
        np.testing.assert_array_equal(found, [[drawn] * 2] * masks.BATCH)
