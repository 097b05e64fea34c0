"""Heads with random weights, and trees with more or fewer classes for them."""

import numpy as np

from tf_hsm import Tree
from tf_hsm.layers import LabelTree

WIDTH, NEW = 7, 5
# "deepen" makes the leaf of class 1 an inner node.
SHALLOW = Tree.from_nested([[0, 1], [2, 3]])


def built(kind, tree, **options):
    """A head of a kind, whose weights and biases are random, of one size."""
    return randomized(kind(tree, **options))


def randomized(layer, width=WIDTH):
    """Builds a layer, and gives its rows random numbers."""
    layer.build([None, width])
    rng = np.random.default_rng(0)
    for variable in layer.row_variables():
        variable.assign(rng.normal(size=variable.shape))
    return layer


def inputs(batch=6, dtype="float32"):
    """Hidden vectors `[batch, WIDTH]`."""
    return np.random.default_rng(1).normal(size=[batch, WIDTH]).astype(dtype)


def grown_tree(tree, how):
    """The tree with new classes; by "rebalance", with the old ones alone.

    `SHALLOW` grows by "deepen" too.
    """
    if how == "deepen":
        return Tree.from_nested([[0, [1, 4]], [2, 3]])
    if how == "rebalance":
        return tree.rebalance(np.arange(tree.num_classes) ** 3 + 1)
    if how == "near":
        rng = np.random.default_rng(0)
        return tree.grow(NEW, near=rng.integers(tree.num_classes, size=NEW))
    return tree.grow(NEW, branch=how == "branch")


def kept(tree, how):
    """Classes: a third of them from the first on, or some here and there."""
    if how == "first":
        return np.arange(max(1, tree.num_classes // 3))
    order = np.random.default_rng(0).permutation(tree.num_classes)
    return np.sort(order[: 1 + tree.num_classes // 8])


def assert_same_rows(head, other, rows):
    """Asserts that a head has rows of another, at `rows`; -1: a new one."""
    for mine, its in zip(
        head.row_variables(), other.row_variables(), strict=True
    ):
        np.testing.assert_array_equal(
            mine.numpy()[rows >= 0], its.numpy()[rows[rows >= 0]]
        )


def assert_same_answers(head, other, classes, its):
    """Asserts that classes have the bits of another head's, by every answer."""
    x = inputs()
    np.testing.assert_array_equal(
        head.log_probs(x).numpy()[:, classes],
        other.log_probs(x).numpy()[:, its],
    )
    mine, theirs = (np.resize(c, [len(x), 8]) for c in (classes, its))
    np.testing.assert_array_equal(
        head.log_prob(mine, x), other.log_prob(theirs, x)
    )
    if not isinstance(head, LabelTree):
        x, mine, theirs = np.repeat(x, 8, 0), mine.ravel(), theirs.ravel()
    np.testing.assert_array_equal(head(x, mine), other(x, theirs))
