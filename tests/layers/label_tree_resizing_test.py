"""Label trees that get more labels, or lose some: probabilities."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import head_oracle, resized_heads
from tests.support import label_tree_reference as reference
from tests.support.resized_heads import (
    SHALLOW,
    assert_same_rows,
    grown_tree,
    inputs,
    kept,
)
from tests.support.trees import CATALOGUE, KINDS
from tf_hsm import LabelCounts, Tree
from tf_hsm.layers import LabelTree

built = functools.partial(resized_heads.built, LabelTree)
HOW = ["near", "fitting", "branch"]


def log_probs(head, x):
    """The log-probabilities `[B, labels]` in float64."""
    values = head_oracle.log_probs(head, x.astype(float)).numpy()
    return values[:, head.tree.class_rows]


def probabilities(head, x):
    """`[B, rows]` in float64, of each row if its parent is positive."""
    return tf.sigmoid(head_oracle.logits(head, x.astype(float))).numpy()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", KINDS)
def test_old_labels_keep_their_probabilities(name, how):
    """All of them, whatever is beside their rows now."""
    head = built(CATALOGUE[name]())
    tree = grown_tree(head.tree, how)
    grown = head.grow(tree)
    rows = tree.map_rows(head.tree)
    assert_same_rows(grown, head, rows)
    x, num_old = inputs(), head.num_classes
    expected = log_probs(head, x)
    np.testing.assert_allclose(
        log_probs(grown, x)[:, :num_old], expected, rtol=1e-12, atol=1e-12
    )
    found = grown.log_probs(x).numpy()
    np.testing.assert_allclose(found[:, :num_old], expected, 1e-4, 1e-4)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ["random", "two_level_100", "flat"])
def test_new_rows_have_the_mean_log_odds_of_their_group(name, how, use_bias):
    """Beside kept rows, at every input; else each label is as probable."""
    head = built(CATALOGUE[name](), use_bias=use_bias)
    tree = grown_tree(head.tree, how)
    grown = head.grow(tree)
    rows = tree.map_rows(head.tree)
    p = probabilities(grown, inputs())
    log_odds = np.log(p) - np.log1p(-p)
    below = reference.classes_below(tree).sum(1)
    above = reference.parents(tree)
    beside_old = 0
    for row in np.flatnonzero(rows < 0):
        begin, end = tree.group_offsets[tree.row_groups[row] :][:2]
        kept = begin + np.flatnonzero(rows[begin:end] >= 0)
        if kept.size:
            wanted = log_odds[:, kept].mean(1)
            np.testing.assert_allclose(log_odds[:, row], wanted, 1e-4, 1e-5)
            beside_old += 1
            continue
        # Empirical log-odds, where each label occurs once and alone.
        wanted = below[row] + 0.5, below[above[row]] - below[row] + 0.5
        wanted = np.log(np.divide(*wanted)) if use_bias else 0
        np.testing.assert_allclose(log_odds[:, row], wanted, 1e-4, 1e-5)
    assert beside_old


@pytest.mark.parametrize(
    "how, is_counted",
    [*((how, True) for how in (*HOW, "rebalance")), ("rebalance", False)],
)
def test_counts_are_the_log_odds_of_new_rows(how, is_counted):
    """The same at every input, as frequent as the labels are.

    Without counts, inner rows of labels that were apart have the log-odds as if
    each label occurred once.
    """
    head = built(CATALOGUE["random"]())
    tree = grown_tree(head.tree, how)
    labels = np.arange(tree.num_classes)[:, None]
    if is_counted:
        rng = np.random.default_rng(2)
        labels = rng.integers(-1, tree.num_classes, (200, 3))
    counts = LabelCounts.of(tree, labels)
    kernel, bias = head.grow(tree, counts if is_counted else None).get_weights()
    new = np.flatnonzero(tree.map_rows(head.tree, from_top=True) < 0)
    assert new.size and not kernel[new].any()
    np.testing.assert_allclose(bias[new], counts.log_odds()[new], rtol=1e-6)


@pytest.mark.parametrize(
    "use_bias, is_counted", [(True, False), (False, False), (True, True)]
)
def test_leaf_that_became_an_inner_node(use_bias, is_counted):
    """The inner row is the leaf's; the label below it is nearly certain."""
    old, tree = SHALLOW, grown_tree(SHALLOW, "deepen")
    head = built(old, use_bias=use_bias)
    counts = LabelCounts.of(tree, [[4]] * 90 + [[1]] * 10)
    grown = head.grow(tree, counts if is_counted else None)
    x = inputs()
    before, after = log_probs(head, x), log_probs(grown, x)
    np.testing.assert_allclose(
        after[:, [0, 2, 3]], before[:, [0, 2, 3]], rtol=1e-12
    )
    inner, leaf = tree.path(1)[1:]
    np.testing.assert_allclose(
        probabilities(grown, x)[:, inner],
        probabilities(head, x)[:, old.class_rows[1]],
        rtol=1e-12,
    )
    assert not grown.kernel.numpy()[leaf].any()
    certain = 1 / (1 + np.exp(-7.0)) if use_bias else 0.5
    np.testing.assert_allclose(after[:, 1], before[:, 1] + np.log(certain))
    if use_bias:
        # One of two labels that occur once is new: it is as probable as not.
        of_new = counts.log_odds()[tree.class_rows[4]] if is_counted else 0
        np.testing.assert_allclose(
            grown.bias.numpy()[tree.class_rows[4]], of_new, rtol=1e-6
        )


@pytest.mark.parametrize("how", ["first", "some"])
@pytest.mark.parametrize("name", KINDS)
def test_dropped_labels(name, how):
    """The others keep their bits; groups of one row stay."""
    head = built(CATALOGUE[name]())
    keep = kept(head.tree, how)
    pruned = head.prune(keep, merge=False)
    found, x = pruned.head, inputs()
    assert found.num_classes == keep.size
    np.testing.assert_array_equal(
        found.log_probs(x), head.log_probs(x).numpy()[:, keep]
    )
    for new, old in enumerate(keep):
        np.testing.assert_array_equal(
            pruned.rows[found.tree.path(new)], head.tree.path(old)
        )
    paths = np.concatenate([head.tree.path(c) for c in keep])
    assert found.tree.num_rows == np.unique(paths).size


def test_dropped_labels_are_none():
    """Label -1 stands for none already."""
    head = built(Tree.two_level(30), ignore_class=7)
    pruned = head.prune([3, 4, 7], merge=False)
    assert pruned.head.ignore_class == 2
    sets = np.array([[3, 9], [9, 10], [4, 3]])
    renamed = pruned.classes[sets]
    assert renamed.tolist() == [[0, -1], [-1, -1], [1, 0]]
    assert np.isfinite(pruned.head(inputs(3), renamed)).all()
