"""Heads that lose classes: what stays to the bit, and what is renormalized."""

import functools
import itertools

import numpy as np
import pytest

from tests.support import inference_reference, resized_heads
from tests.support.oracle import Problem
from tests.support.resized_heads import (
    assert_same_rows,
    inputs,
    kept,
)
from tests.support.trees import CATALOGUE, KINDS
from tf_hsm import Tree
from tf_hsm.layers import HierarchicalSoftmax

COUNTS = np.array([9, 1, 2, 7, 30, 1, 1, 2])
# Classes 5 to 7 are below a node of their own.
TREE = Tree.from_nested([0, 1, [2, 3], [4, [5, 6, 7]]]).with_counts(COUNTS)
KEEP = [0, 3]
built = functools.partial(resized_heads.built, HierarchicalSoftmax)


def can_merge(tree, how):
    """Whether a group has no kept class at or below its rows."""
    keep = kept(tree, how)
    paths = np.concatenate([tree.path(c) for c in keep])
    return np.unique(tree.row_groups[paths]).size < tree.num_groups


@pytest.mark.parametrize(
    "name, how",
    [
        (name, how)
        for name, how in itertools.product(KINDS, ["first", "some"])
        if can_merge(CATALOGUE[name](), how)
    ],
)
def test_merged_heads_keep_their_bits(name, how):
    """All kept classes, by every answer; merged ones are inner nodes."""
    head = built(CATALOGUE[name]())
    keep = kept(head.tree, how)
    pruned = head.prune(keep)
    num_kept, x = len(keep), inputs()
    assert_same_rows(pruned.head, head, pruned.rows)
    old, new = (h.log_probs(x).numpy() for h in (head, pruned.head))
    np.testing.assert_array_equal(new[:, :num_kept], old[:, keep])
    asked = np.resize(keep, [len(x), 3])
    renamed = pruned.classes[asked]
    np.testing.assert_array_equal(
        pruned.head.log_prob(renamed, x), head.log_prob(asked, x)
    )
    np.testing.assert_array_equal(
        pruned.head(np.repeat(x, 3, 0), renamed.ravel()),
        head(np.repeat(x, 3, 0), asked.ravel()),
    )
    rows = head.log_probs(x, nodes=True).numpy()
    np.testing.assert_array_equal(
        new, rows[:, pruned.rows[pruned.head.tree.class_rows]]
    )


def bounded(head, x):
    """The log-probabilities of the classes in float64, and their bounds."""
    weights = head.kernel.numpy()
    biases = None if head.bias is None else head.bias.numpy()
    labels, upstream = np.zeros(len(x), int), np.ones(len(x))
    problem = Problem(x, labels, weights, biases, upstream)
    found = inference_reference.node_log_probs(head.tree, problem)
    return [inference_reference.by_class(head.tree, v) for v in found]


def renormalized(head, keep, x):
    """The log-probabilities `[B, K]` of the kept classes alone, in float64.

    Group by group down the old tree, a softmax over the rows that have a kept
    class at or below them.
    """
    tree = head.tree
    logits = x.astype(float) @ head.kernel.numpy().astype(float).T
    if head.bias is not None:
        logits += head.bias.numpy()
    rows_of_paths = {row for c in keep for row in tree.path(c)}
    result = []
    for c in keep:
        total = 0
        for row in tree.path(c):
            group = tree.row_groups[row]
            siblings = np.arange(*tree.group_offsets[group : group + 2])
            siblings = [r for r in siblings if r in rows_of_paths]
            odds = np.exp(logits[:, siblings] - logits[:, [row]])
            total = total - np.log(odds.sum(1))
        result.append(total)
    return np.stack(result, 1)


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("how", ["first", "some"])
@pytest.mark.parametrize("name", KINDS)
def test_dropped_classes_leave_a_softmax_of_the_rest(name, how, use_bias):
    """In each group; within the rounding errors of the pruned tree."""
    head = built(CATALOGUE[name](), use_bias=use_bias)
    keep = kept(head.tree, how)
    pruned = head.prune(keep, merge=False)
    x = inputs()
    assert pruned.head.num_classes == len(keep)
    wanted = renormalized(head, keep, x)
    _, bounds = bounded(pruned.head, x)
    found = pruned.head.log_probs(x).numpy()
    inference_reference.assert_near(found, wanted, bounds + 1e-12)
    np.testing.assert_allclose(np.exp(found).sum(1), 1, rtol=1e-4)
    # In a group that loses no row, odds and log-probabilities stay.
    everything = head.prune(np.arange(head.num_classes), merge=False)
    np.testing.assert_array_equal(
        everything.head.log_probs(x), head.log_probs(x)
    )


@pytest.mark.parametrize(
    "merge, how", list(itertools.product([True, False], ["first", "some"]))
)
def test_pinned_trees(merge, how):
    """They stay pinned; merged, to the bit."""
    tree = Tree.huffman(10**4 // np.arange(1, 60)).pin()
    head = built(tree)
    keep = kept(tree, how)
    pruned = head.prune(keep, merge=merge)
    assert pruned.head.tree.pinned
    assert_same_rows(pruned.head, head, pruned.rows[::2] // 2)
    x = inputs()
    found = pruned.head.log_probs(x).numpy()[:, : len(keep)]
    if merge:
        np.testing.assert_array_equal(found, head.log_probs(x).numpy()[:, keep])
    expanded = head.grow(tree.expand())
    wanted = expanded.prune(keep, merge=merge).head.log_probs(x)
    np.testing.assert_allclose(found, wanted[:, : len(keep)], 1e-5, 1e-5)


def test_options_with_a_number_for_each_class():
    """Merged class weights are means by counts, priors are sums."""
    weights, prior = np.arange(8.0), np.arange(1.0, 9)
    options = {
        "label_smoothing": 0.1,
        "smoothing_prior": prior,
        "class_weights": weights,
    }
    # New classes: 0, 3, 1, 2, and 4 to 7 in one.
    mean = weights[4:] @ COUNTS[4:] / COUNTS[4:].sum()
    found = built(TREE, **options).prune(KEEP).head
    np.testing.assert_allclose(
        sorted(found.class_weights), sorted([0, 3, 1, 2, mean])
    )
    assert sorted(found.smoothing_prior) == sorted([1, 4, 2, 3, 5 + 6 + 7 + 8])
    uncounted = built(TREE.with_counts(None), **options).prune(KEEP).head
    assert max(uncounted.class_weights) == 5.5
    dropped = built(TREE, **options).prune(KEEP, merge=False).head
    assert dropped.class_weights.tolist() == [0, 3]
    assert dropped.smoothing_prior.tolist() == [1, 4]


@pytest.mark.parametrize(
    "ignored, merge, found",
    [
        (None, True, None),
        (-1, True, -1),
        (-7, False, -7),
        (99, False, 99),
        (3, True, 1),
        (3, False, 1),
        (1, False, -1),  # dropped: -1 in `classes` too
        (4, False, -1),
    ],
)
def test_ignored_class(ignored, merge, found):
    head = built(TREE, ignore_class=ignored)
    assert head.prune(KEEP, merge=merge).head.ignore_class == found


def test_an_ignored_class_that_stays_by_itself():
    """It shares its group with a kept class, so nothing merges with it."""
    pruned = built(TREE, ignore_class=1).prune(KEEP)
    assert pruned.head.ignore_class == pruned.classes[1] >= 2
    x = inputs()
    assert not pruned.head(x, np.full(6, pruned.classes[1])).numpy().any()


@pytest.mark.parametrize("row, merge", [(2, True), (2, False), (8, True)])
def test_labels_that_are_rows(row, merge):
    """Rows are renumbered by the map of rows."""
    head = built(TREE, node_labels=True, ignore_class=row)
    pruned = head.prune(KEEP, merge=merge)
    found = pruned.head.ignore_class
    assert found == -1 if row not in pruned.rows else pruned.rows[found] == row
    if merge:
        x, labels = inputs(), np.zeros(6, int)
        np.testing.assert_array_equal(
            pruned.head(x, labels), head(x, pruned.rows[labels])
        )
