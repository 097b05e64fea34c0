"""Heads that get or lose classes: what stays to the bit, how others begin."""

import functools
import itertools

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support import resized_heads
from tests.support.pairs import all_pairs
from tests.support.resized_heads import (
    WIDTH,
    assert_same_answers,
    assert_same_rows,
    grown_tree,
    inputs,
    kept,
)
from tests.support.training import assert_same
from tests.support.trees import CATALOGUE, KINDS
from tf_hsm import Tree
from tf_hsm.layers import EmbeddingSoftmax, HierarchicalSoftmax, LabelTree

COUNTS = np.array([9, 1, 2, 7, 30, 1, 1, 2])
# Classes 5 to 7 are below a node of their own.
TREE = Tree.from_nested([0, 1, [2, 3], [4, [5, 6, 7]]]).with_counts(COUNTS)
KEEP = [0, 3]
PINNED = Tree.huffman(10**4 // np.arange(1, 60)).pin()
built = functools.partial(resized_heads.built, HierarchicalSoftmax)


def counts_of(tree):
    """Random counts of all classes; the first class has none."""
    counts = np.random.default_rng(2).integers(1, 50, size=tree.num_classes)
    counts[0] = 0
    return counts


@pytest.mark.parametrize(
    "name, how, with_counts",
    all_pairs(KINDS, ["near", "fitting", "branch", "rebalance"], [True, False]),
)
def test_new_rows_take_at_most_their_share(name, how, with_counts):
    """Zero inputs give new rows their whole share; old rows keep their bits."""
    head = built(CATALOGUE[name]())
    new = grown_tree(head.tree, how)
    counts = counts_of(new) if with_counts else None
    grown = head.grow(new, counts)
    rows = new.map_rows(head.tree)
    assert_same_rows(grown, head, rows)
    if counts is None:
        counts = new.counts
    if counts is None:
        counts = np.ones(new.num_classes)
    shares = np.exp(new.log_prior(counts))
    x = np.concatenate([np.zeros([1, WIDTH], "f4"), inputs()])
    kernel, bias = (w.astype(float) for w in grown.get_weights())
    logits = x @ kernel.T + bias
    for begin, end in itertools.pairwise(new.group_offsets):
        is_new = rows[begin:end] < 0
        if not is_new.any():
            continue
        odds = np.exp(logits[:, begin:end])
        share = shares[begin:end]
        if is_new.all():
            probs = odds / odds.sum(1, keepdims=True)
            np.testing.assert_allclose(probs, np.tile(share, [len(x), 1]), 1e-4)
            continue
        new_odds = odds[:, is_new] / odds[:, ~is_new].sum(1, keepdims=True)
        wanted = share[is_new] / share[~is_new].sum()
        np.testing.assert_allclose(new_odds[0], wanted, 1e-4)
        assert (new_odds <= wanted * (1 + 1e-4)).all()
        if is_new.sum() < end - begin - 1:
            assert (new_odds[1:] < 0.99 * wanted).any()


@pytest.mark.parametrize("how", ["near", "fitting", "branch"])
@pytest.mark.parametrize("name", KINDS)
def test_without_biases(name, how):
    """A new row is the mean of those beside it."""
    head = built(CATALOGUE[name](), use_bias=False)
    new = grown_tree(head.tree, how)
    grown = head.grow(new)
    assert grown.bias is None
    rows = new.map_rows(head.tree)
    (kernel,) = grown.get_weights()
    (old_kernel,) = head.get_weights()
    for row in np.flatnonzero(rows < 0):
        begin, end = new.group_offsets[new.row_groups[row] :][:2]
        kept = rows[begin:end][rows[begin:end] >= 0]
        wanted = old_kernel[kept].mean(0) if kept.size else np.zeros(WIDTH)
        np.testing.assert_allclose(kernel[row], wanted, rtol=1e-4, atol=1e-5)


def can_merge(tree, how):
    """Whether a group has no kept class at or below its rows."""
    keep = kept(tree, how)
    paths = np.concatenate([tree.path(c) for c in keep])
    return np.unique(tree.row_groups[paths]).size < tree.num_groups


@pytest.mark.parametrize("kind", [HierarchicalSoftmax, LabelTree])
@pytest.mark.parametrize(
    "name, how",
    [
        (name, how)
        for name, how in itertools.product(KINDS, ["first", "some"])
        if can_merge(CATALOGUE[name](), how)
    ],
)
def test_merged_heads_keep_their_bits(name, how, kind):
    """All kept classes, by every answer; merged ones are inner nodes."""
    head = resized_heads.built(kind, CATALOGUE[name]())
    keep = kept(head.tree, how)
    pruned = head.prune(keep)
    assert_same_rows(pruned.head, head, pruned.rows)
    assert_same_answers(pruned.head, head, pruned.classes[keep], keep)
    x = inputs()
    rows = head.log_probs(x, nodes=True).numpy()
    np.testing.assert_array_equal(
        pruned.head.log_probs(x),
        rows[:, pruned.rows[pruned.head.tree.class_rows]],
    )


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
    """The kept rows of each group have the softmax of what is left."""
    head = built(CATALOGUE[name](), use_bias=use_bias)
    keep = kept(head.tree, how)
    pruned = head.prune(keep, merge=False)
    x = inputs()
    assert pruned.head.num_classes == len(keep)
    wanted = renormalized(head, keep, x)
    found = pruned.head.log_probs(x).numpy()
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)
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
    head = built(PINNED)
    keep = kept(PINNED, how)
    pruned = head.prune(keep, merge=merge)
    assert pruned.head.tree.pinned
    assert_same_rows(pruned.head, head, pruned.rows[::2] // 2)
    x = inputs()
    found = pruned.head.log_probs(x).numpy()[:, : len(keep)]
    if merge:
        np.testing.assert_array_equal(found, head.log_probs(x).numpy()[:, keep])
    expanded = head.grow(PINNED.expand())
    wanted = expanded.prune(keep, merge=merge).head.log_probs(x)
    np.testing.assert_allclose(found, wanted[:, : len(keep)], 1e-5, 1e-5)


@pytest.mark.parametrize("use_bias", [True, False])
def test_growth_to_the_expanded_tree(use_bias):
    """A pinned head grows as a head with equal values on the expanded tree."""
    whole = PINNED.expand()
    head, other = (built(tree, use_bias=use_bias) for tree in (PINNED, whole))
    pairs = zip(head.row_variables(), other.row_variables(), strict=True)
    for mine, its in pairs:
        its.assign(PINNED.expand_rows(mine.numpy()))
    for tree in (whole, whole.grow(3, near=[0, 5, 9])):
        grown, wanted = (h.grow(tree) for h in (head, other))
        assert grown.tree == tree
        assert_same(grown.row_variables(), wanted.row_variables())


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


@pytest.mark.parametrize(
    "kind, options",
    [
        (HierarchicalSoftmax, {}),
        (EmbeddingSoftmax, {"num_embeddings": 9, "width": WIDTH}),
    ],
)
def test_copies_of_old_classes(kind, options):
    """A class and its copies share its probability; all others keep theirs."""
    old = Tree.balanced(30, [5, 6])
    head = resized_heads.built(kind, old, dtype="float64", **options)
    x = np.arange(7) if options else inputs(dtype="float64")
    like = [3, 17, 3, 29]
    grown = head.grow(old.grow(4, near=like), like=like)
    before = np.exp(head.log_probs(x))
    after = np.exp(grown.log_probs(x))
    shares = 1 / (1 + np.bincount(like, minlength=30))
    np.testing.assert_allclose(after[:, :30], before * shares, 1e-12)
    np.testing.assert_allclose(after[:, 30:], (before * shares)[:, like], 1e-12)
    for wrong, message in (
        ([3, 17], "like has 2 entries"),
        ([3, 17, 3, 30], r"like\[3\] is 30; the old classes are 0 to 29"),
        ([3, 17, 3, 2], "class 33 cannot begin like class 2, which is in an"),
    ):
        with pytest.raises(ValueError, match=message):
            head.grow(old.grow(4, near=like), like=wrong)
    with pytest.raises(ValueError, match="the head has no biases"):
        built(old, use_bias=False).grow(old.grow(4, near=like), like=like)


def test_a_model_with_copies_of_old_classes():
    items = keras.layers.Embedding(30, 6, name="items")
    head = HierarchicalSoftmax(Tree.balanced(30, [5, 6]))
    model = keras.Sequential([keras.Input([], dtype="int64"), items, head])
    model.compile(tf_hsm.optimizers.LazyAdam(0.1), head.loss)
    tree = head.tree.grow(2, near=[7, 3])
    grown = tf_hsm.grow(model, tree, embeddings=["items"], like=[7, 3])
    hidden = grown(np.array([7, 30, 3, 31])).numpy()
    np.testing.assert_array_equal(hidden[::2], hidden[1::2])
    found = grown.layers[-1].log_probs(hidden).numpy()
    np.testing.assert_allclose(found[:, 30:], found[:, [7, 3]], 1e-6)
    x = np.arange(32)
    grown.fit(x, x, verbose=0)
