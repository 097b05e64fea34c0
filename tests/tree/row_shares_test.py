"""The shares of the rows in their groups."""

import numpy as np
import pytest

from tests.support import trees
from tf_hsm.tree import Tree


def sums(tree, shares):
    return np.add.reduceat(shares, tree.group_offsets[:-1])


@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_they_are_those_of_the_classes_below(name):
    """Counted class by class, along the paths."""
    tree = trees.CATALOGUE[name]()
    counts = np.random.default_rng(0).integers(1, 9, tree.num_classes)
    masses = np.zeros(tree.num_rows)
    for c, count in enumerate(counts):
        masses[tree.path(c)] += count
    shares = tree.row_shares(counts)
    want = masses / sums(tree, masses)[tree.row_groups]
    np.testing.assert_allclose(shares, want, rtol=1e-12)
    np.testing.assert_allclose(sums(tree, shares), 1, rtol=1e-12)


def test_by_hand():
    tree = Tree.from_nested([[0, 1, 2], [3, [4, 5]], 6])
    shares = tree.row_shares([3, 0, 1, 0, 0, 0, 4])
    # The groups that have none of the mass, below row 1, are even.
    np.testing.assert_array_equal(
        shares, [0.5, 0, 0.5, 0.75, 0, 0.25, 0.5, 0.5, 0.5, 0.5]
    )
    np.testing.assert_allclose(tree.row_shares()[:3], [3 / 7, 3 / 7, 1 / 7])


def test_where_all_occur_they_are_the_log_prior():
    tree = Tree.huffman(range(1, 30), branching=3)
    counts = np.arange(1, 30) ** 2.5
    np.testing.assert_allclose(
        np.log(tree.row_shares(counts)), tree.log_prior(counts), atol=1e-12
    )


def test_a_pinned_tree_has_them_for_all_rows():
    tree = Tree.balanced(5, 2)
    counts = [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(
        tree.pin().row_shares(counts), tree.row_shares(counts)
    )


def test_counts_that_differ_by_far():
    """No share is NaN or above 1, where masses fall to zero."""
    tree = Tree.huffman(2.0 ** np.arange(40))
    shares = tree.row_shares(1e300 ** -np.linspace(-1, 1, 40))
    assert (shares >= 0).all() and (shares <= 1).all()
    np.testing.assert_allclose(sums(tree, shares), 1, rtol=1e-12)
    # Biases are finite: no class is impossible.
    assert np.isfinite(Tree.two_level(3).log_prior([1e-300, 1, 1e300])).all()
