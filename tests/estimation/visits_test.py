"""How many examples visit the groups of a tree."""

import numpy as np
import pytest

import tf_hsm
from tests.support import trees
from tf_hsm.estimation.heads import visits


@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_visits_of_trees(name):
    """The masses of groups, against paths one by one."""
    tree = trees.CATALOGUE[name]()
    counts = np.random.default_rng(0).integers(1, 9, tree.num_classes)
    found = visits.of(tree, counts)
    masses = np.zeros(tree.num_groups)
    for c in range(tree.num_classes):
        row = tree.class_rows[c]
        while row >= 0:
            masses[tree.row_groups[row]] += counts[c] / counts.sum()
            row = tree.group_parents[tree.row_groups[row]]
    np.testing.assert_allclose(found.masses, masses, atol=1e-12)
    np.testing.assert_array_equal(found.fanouts, np.diff(tree.group_offsets))
    np.testing.assert_allclose(
        found.groups(7), np.sum(1 - (1 - np.minimum(masses, 1)) ** 7)
    )
    assert found.pairs(10) == pytest.approx(10 * masses.sum())
    assert found.logits(10) == pytest.approx(10 * masses @ found.fanouts)


@pytest.mark.parametrize("num_classes", [1, 2, 3, 7, 100, 1013, 10_007])
@pytest.mark.parametrize("counts", [None, "zipf", "drawn"])
def test_two_levels_without_the_tree(num_classes, counts):
    if counts == "drawn":
        counts = np.random.default_rng(1).integers(9, size=num_classes) + 1
    tree = tf_hsm.Tree.two_level(num_classes)
    there, here = visits.of(tree, counts), visits.of(num_classes, counts)
    assert there.num_rows == here.num_rows
    np.testing.assert_array_equal(there.fanouts, here.fanouts)
    np.testing.assert_allclose(there.masses, here.masses, rtol=1e-12)
