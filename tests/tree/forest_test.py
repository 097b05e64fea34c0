"""Forests: their arrays, and what is no forest."""

import copy
import pickle

import numpy as np
import pytest

import tf_hsm
from tests.support import forests


@pytest.mark.parametrize("name", forests.TREES)
@pytest.mark.parametrize("seed", range(3))
def test_arrays_follow_those_of_the_tree(name, seed):
    """The order of rows, the classes, groups and rows below or above them."""
    tree = forests.TREES[name]()
    cut = forests.cut(tree, forests.some_rows(tree, seed))
    forest = cut.forest
    assert forest.num_roots == cut.roots.size
    np.testing.assert_array_equal(
        forest.root_groups, np.flatnonzero(forest.group_parents == -1)
    )
    np.testing.assert_array_equal(
        tree.row_groups[cut.rows], cut.groups[forest.row_groups]
    )
    # The rows of the trees in turn, each in the tree's own order.
    trees = np.searchsorted(forest.root_groups, forest.row_groups, "right")
    order = np.lexsort((tree.row_ranks[cut.rows], trees))
    np.testing.assert_array_equal(np.argsort(forest.row_ranks), order)
    for row, group in enumerate(forest.row_children):
        np.testing.assert_array_equal(
            np.sort(cut.classes[forest.classes_below(row)]),
            tree.classes_below(cut.rows[row]),
        )
        if group < 0:
            assert forest.class_rows[forest.row_classes[row]] == row
        else:
            assert forest.group_parents[group] == row


def test_immutable():
    """Nothing changes; equal arrays make equal forests."""
    arrays = [0, 2, 4, 7], [-1, 1, -1], [0, 2, 3, 6, 5, 4]
    forest = tf_hsm.Forest(*arrays)
    assert forest == tf_hsm.Forest(*map(np.array, arrays))
    assert hash(forest) == hash(tf_hsm.Forest(*arrays))
    assert forest != tf_hsm.Forest(*arrays[:2], [0, 2, 3, 6, 4, 5])
    assert copy.deepcopy(forest) is forest
    assert pickle.loads(pickle.dumps(forest)) == forest
    assert repr(forest) == (
        "Forest(num_classes=6, num_rows=7, num_groups=3, num_roots=2)"
    )
    with pytest.raises(AttributeError, match="immutable"):
        forest.group_offsets = None
    for name in ("group_parents", "root_groups", "class_ranks"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(forest, name)[0] = 3


OFFSETS, PARENTS, ROWS = [0, 2, 4, 7], [-1, 1, -1], [0, 2, 3, 6, 5, 4]


@pytest.mark.parametrize(
    "arrays, message",
    [
        (([0], [], []), "at least one group"),
        (([0, 2, 4], PARENTS, ROWS), "3 groups need 4"),
        (([1, 2, 4, 7], PARENTS, ROWS), r"group_offsets\[0\] is 1"),
        (([0, 2, 2, 7], PARENTS, ROWS), "group 1 is empty"),
        ((OFFSETS, PARENTS, ROWS[:-1]), "5 classes in 3 groups in 2 trees"),
        ((OFFSETS, [-1, -1, -1], ROWS), "in 3 trees make 6 rows"),
        ((OFFSETS, [0, -1, -1], ROWS), r"group_parents\[0\] is 0"),
        ((OFFSETS, [-1, 2, -1], ROWS), "group 1 has parent row 2, which"),
        ((OFFSETS, [-1, -2, -1], ROWS), "group 1 has parent row -2 and"),
        ((OFFSETS, [-1, -1, 0], ROWS), "group 2 has parent row 0, .* tree"),
        ((OFFSETS, PARENTS, [0, 2, 3, 6, 5, 7]), "class 5 has row 7"),
        ((OFFSETS, PARENTS, [0, 2, 3, 6, 5, 5]), "row 5 is the leaf of both"),
        ((OFFSETS, PARENTS, [0, 2, 3, 6, 5, 1]), "row 1 is both the leaf"),
        (([0, 2, 4, 6, 8], [-1, 1, 0, -1], [2, 3, 4, 5, 6, 7]), "group 2 has "),
    ],
)
def test_what_is_no_forest(arrays, message):
    """The message names the first group, row or class that is wrong."""
    with pytest.raises(ValueError, match=message):
        tf_hsm.Forest(*arrays)


def test_what_cannot_be_pinned():
    with pytest.raises(ValueError, match="group 2 has 3 rows; every group"):
        tf_hsm.Forest(OFFSETS, PARENTS, ROWS, pinned=True)
