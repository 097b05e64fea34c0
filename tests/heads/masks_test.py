"""Allowed classes of a head on several devices, by brute force."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.devices import CPUS
from tests.support.masks import check, lists_of, masked, random_mask
from tests.support.trees import chain
from tf_hsm import Tree, distribute
from tf_hsm.layers import HierarchicalSoftmax

N, BATCH, WIDTH = 60, 11, 5
TREES = {
    "huffman": Tree.huffman(1 / np.arange(1.0, N + 1)),
    "pinned": Tree.huffman(1 / np.arange(1.0, N + 1), pinned=True),
    "two_level": Tree.two_level(N),
    "chain": chain(N - 1),
    "flat": Tree.balanced(N, N),
}
CASES = [("huffman", 1), ("huffman", 8), *[(name, 3) for name in TREES]]
everywhere = pytest.mark.parametrize("name, count", CASES)


def cut_head(name, count):
    tree = TREES[name]
    plan = distribute.plan(tree, CPUS[:count], top=8)
    head = HierarchicalSoftmax(tree, plan=plan, dtype="float64")
    head.build([None, WIDTH])
    rng = np.random.default_rng(0)
    for variable in head.row_variables():
        variable.assign(rng.normal(size=variable.shape))
    return head, tf.constant(rng.normal(size=[BATCH, WIDTH]))


def wanted(head, x, mask, renormalize):
    return masked(head.log_probs(x).numpy(), mask, renormalize)


@everywhere
@pytest.mark.parametrize("lists", [1, BATCH])
@pytest.mark.parametrize("renormalize", [False, True])
def test_log_prob(name, count, lists, renormalize):
    head, x = cut_head(name, count)
    mask = random_mask(head.tree, 0.2, lists)
    classes = np.tile(np.arange(N), [BATCH, 1])
    found = head.log_prob(
        classes, x, allowed=lists_of(mask), renormalize=renormalize
    )
    expected = wanted(head, x, mask, renormalize)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@everywhere
@pytest.mark.parametrize("lists", [1, BATCH])
@pytest.mark.parametrize("options", [{}, {"renormalize": True}])
def test_top_k(name, count, lists, options):
    """Where a list is shorter than k, class -1 stands for the rest."""
    head, x = cut_head(name, count)
    mask = random_mask(head.tree, 0.1, lists, seed=3)
    found = head.top_k(x, 7, allowed=lists_of(mask), **options)
    expected = wanted(head, x, mask, "renormalize" in options)
    check(found, expected, mask, 7, exact=False)
    assert (mask.sum(1) < 7).any() and mask.any()


def test_top_k_of_one_shard():
    """Lists that only one shard has, or none; and above a threshold."""
    head, x = cut_head("two_level", 3)
    shard = head._head.parts[1]
    own = head.plan.layout.place_classes[shard.places]
    _, classes = head.top_k(x, own.size, allowed=own)
    np.testing.assert_array_equal(np.sort(classes, 1), [np.sort(own)] * BATCH)
    _, classes = head.top_k(x, 3, allowed=tf.zeros([0], tf.int64))
    assert (classes.numpy() == -1).all()
    log_probs, classes = head.top_k(x, N, threshold=0.05)
    dense = head.log_probs(x).numpy()
    kept = (dense >= np.log(0.05)).sum(1)
    np.testing.assert_array_equal((classes.numpy() >= 0).sum(1), kept)
    assert (log_probs.numpy()[classes >= 0] >= np.log(0.05)).all()


@everywhere
def test_sample(name, count):
    """Draws are allowed classes only, as often as they are probable."""
    head, x = cut_head(name, count)
    mask = random_mask(head.tree, 0.2, BATCH, seed=2)
    mask[:, 0] = True  # none is empty
    drawn = head.sample(x, 2000, seed=4, allowed=lists_of(mask)).numpy()
    shares = np.exp(wanted(head, x, mask, True))
    for row, its, share in zip(drawn, mask, shares, strict=True):
        counts = np.bincount(row, minlength=N)
        assert not counts[~its].any()
        spread = np.sqrt(2000 * share * (1 - share))
        assert (abs(counts - 2000 * share) <= 6 * spread + 1).all()


def test_errors():
    head, x = cut_head("huffman", 3)
    with pytest.raises(ValueError, match="renormalize needs allowed"):
        head.top_k(x, 2, renormalize=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside"):
        head.top_k(x, 2, allowed=[1, N])
    with pytest.raises(ValueError, match=r"nodes is not possible .* a plan"):
        head.log_prob(np.zeros([BATCH, 1], int), x, nodes=True)
