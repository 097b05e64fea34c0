"""Heads that get another tree: what stays to the bit, how the rest begins."""

import functools
import itertools

import numpy as np
import pytest

import tf_hsm
from tests.support import resized_heads
from tests.support.pairs import all_pairs
from tests.support.resized_heads import (
    WIDTH,
    assert_same_rows,
    grown_tree,
    inputs,
)
from tests.support.trees import CATALOGUE, KINDS
from tf_hsm import Tree
from tf_hsm.layers import HierarchicalSoftmax

built = functools.partial(resized_heads.built, HierarchicalSoftmax)


def group_pairs(old, new, rows):
    """Groups of the new tree, and the old ones that have the same rows."""
    for group in range(new.num_groups):
        mine = rows[slice(*new.group_offsets[group : group + 2])]
        if (mine < 0).any():
            continue
        its = old.row_groups[mine[0]]
        if np.array_equal(mine, np.arange(*old.group_offsets[its : its + 2])):
            yield group, its


def same_classes(old, new, rows):
    """The old classes on whose path no group is another."""
    groups = {group for group, _ in group_pairs(old, new, rows)}
    return [
        c
        for c in range(old.num_classes)
        if groups.issuperset(new.row_groups[new.path(c)])
    ]


def group_log_probs(head, group):
    """Those of the rows of one group, given the row above."""
    begin, end = head.tree.group_offsets[group : group + 2]
    return tf_hsm.hierarchical_softmax_log_probs(
        head.kernel.value[begin:end],
        None if head.bias is None else head.bias.value[begin:end],
        inputs(),
        Tree.balanced(end - begin, [end - begin]),
    ).numpy()


@pytest.mark.parametrize("how", ["near", "fitting", "branch"])
@pytest.mark.parametrize("name", KINDS)
def test_same_bits(name, how):
    """All log-probabilities in groups of the same rows; and so on paths."""
    head = built(CATALOGUE[name]())
    old, new = head.tree, grown_tree(head.tree, how)
    grown = head.grow(new)
    rows = new.map_rows(old)
    assert_same_rows(grown, head, rows)
    pairs = list(group_pairs(old, new, rows))
    added = new.row_groups[new.class_rows[old.num_classes :]]
    num_changed = 1 if how == "branch" else np.unique(added).size
    assert len(pairs) >= old.num_groups - num_changed
    for mine, its in pairs[:: 1 + len(pairs) // 10]:
        np.testing.assert_array_equal(
            group_log_probs(grown, mine), group_log_probs(head, its)
        )
    classes = same_classes(old, new, rows)
    assert not classes or how != "branch"
    x = inputs()
    np.testing.assert_array_equal(
        grown.log_probs(x).numpy()[:, classes],
        head.log_probs(x).numpy()[:, classes],
    )
    if not classes:
        return
    asked = np.resize(classes, [len(x), 3])
    for answer in (
        lambda h: h.log_prob(asked, x),
        lambda h: h(np.repeat(x, 3, 0), asked.ravel()),
    ):
        np.testing.assert_array_equal(answer(grown), answer(head))


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
    """All of it where inputs are zero; and the old rows keep their odds."""
    head = built(CATALOGUE[name]())
    new = grown_tree(head.tree, how)
    counts = counts_of(new) if with_counts else None
    grown = head.grow(new, counts)
    rows = new.map_rows(head.tree)
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
