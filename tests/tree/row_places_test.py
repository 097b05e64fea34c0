"""Where the rows of a tree are: their order, classes below them and names."""

import functools

import numpy as np
import pytest

import tf_hsm
from tests.support import trees

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
    tree = tf_hsm.Tree.from_paths(
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
        tf_hsm.Tree.two_level(3).row_of("cat")
