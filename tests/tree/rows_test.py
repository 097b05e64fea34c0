"""The rows of a tree: their order, the classes below, names and shares."""

import functools

import numpy as np
import pytest

from tests.support import trees
from tf_hsm.tree import Tree

build = functools.cache(lambda name: trees.CATALOGUE[name]())


def classes_below(tree, row):
    """By climbing from each class."""
    return [c for c in range(tree.num_classes) if row in tree.path(c)]


@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_places_of_rows(name):
    """Depth-first order, and the classes below a row, by brute force."""
    tree = build(name)
    order = []
    waiting = [*range(tree.group_offsets[1])][::-1]
    while waiting:
        row = waiting.pop()
        order.append(row)
        group = tree.row_children[row]
        if group >= 0:
            rows = range(*tree.group_offsets[group : group + 2])
            waiting += [*rows][::-1]
    np.testing.assert_array_equal(np.argsort(tree.row_ranks), order)
    rng = np.random.default_rng(0)
    for row in rng.integers(tree.num_rows, size=30):
        below = classes_below(tree, row)
        np.testing.assert_array_equal(tree.classes_below(row), below)
        first, past = tree.row_spans[row]
        assert sorted(tree.class_ranks[below]) == [*range(first, past)]
    for row in (-1, tree.num_rows, 0.5, True):
        with pytest.raises(IndexError, match="row"):
            tree.classes_below(row)


def test_names():
    """Rows by their names, of inner nodes and leaves."""
    tree = Tree.from_paths(
        [("animal", "cat"), ("plant",), ("animal", "dog"), ("thing", "cat")]
    )
    for name in ("animal", "plant", "thing", "dog"):
        assert tree.names[tree.row_of(name)] == name
    assert tree.classes_below(tree.row_of("animal")).tolist() == [0, 2]
    with pytest.raises(KeyError, match="no row is named 'animol'; similar are"):
        tree.row_of("animol")
    with pytest.raises(ValueError, match="both named 'cat'; take the row from"):
        tree.row_of("cat")
    with pytest.raises(ValueError, match="the tree has no names"):
        Tree.two_level(3).row_of("cat")


def sums(tree, shares):
    return np.add.reduceat(shares, tree.group_offsets[:-1])


@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_shares_of_the_classes_below(name):
    """Counted class by class, along the paths."""
    tree = build(name)
    counts = np.random.default_rng(0).integers(1, 9, tree.num_classes)
    masses = np.zeros(tree.num_rows)
    for c, count in enumerate(counts):
        masses[tree.path(c)] += count
    shares = tree.row_shares(counts)
    want = masses / sums(tree, masses)[tree.row_groups]
    np.testing.assert_allclose(shares, want, rtol=1e-12)
    np.testing.assert_allclose(sums(tree, shares), 1, rtol=1e-12)


def test_shares_by_hand():
    tree = Tree.from_nested([[0, 1, 2], [3, [4, 5]], 6])
    shares = tree.row_shares([3, 0, 1, 0, 0, 0, 4])
    # The groups that have none of the mass, below row 1, are even.
    np.testing.assert_array_equal(
        shares, [0.5, 0, 0.5, 0.75, 0, 0.25, 0.5, 0.5, 0.5, 0.5]
    )
    np.testing.assert_allclose(tree.row_shares()[:3], [3 / 7, 3 / 7, 1 / 7])


def test_shares_where_all_classes_occur():
    tree = Tree.huffman(range(1, 30), branching=3)
    counts = np.arange(1, 30) ** 2.5
    np.testing.assert_allclose(
        np.log(tree.row_shares(counts)), tree.log_prior(counts), atol=1e-12
    )


def test_shares_of_a_pinned_tree():
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
