"""Trees of the same shape in which similar classes share groups."""

import numpy as np
import pytest

from tests.support.trees import CATALOGUE
from tf_hsm.tree import Tree


def depths(tree):
    return tree.group_depths[tree.row_groups[tree.class_rows]]


def latent(num_classes, size=5):
    """Vectors of random clusters of `size` classes, and the clusters."""
    rng = np.random.default_rng(num_classes)
    clusters = rng.permutation(np.arange(num_classes) // size)
    centers = rng.normal(size=[clusters.max() + 1, 8])
    noise = 0.1 * rng.normal(size=[num_classes, 8])
    return centers[clusters] + noise, clusters


def purity(tree, clusters):
    """The share of pairs of siblings that are of one cluster."""
    groups = tree.row_groups[tree.class_rows]
    pairs = (groups[:, None] == groups) & ~np.eye(groups.size, dtype=bool)
    return (clusters[:, None] == clusters)[pairs].mean()


@pytest.mark.parametrize("keep_depths", [True, False])
@pytest.mark.parametrize("name", CATALOGUE)
def test_same_shape(name, keep_depths):
    tree = CATALOGUE[name]()
    vectors = np.random.default_rng(0).normal(size=[tree.num_classes, 3])
    new = tree.regroup(vectors, keep_depths=keep_depths)
    np.testing.assert_array_equal(new.group_offsets, tree.group_offsets)
    np.testing.assert_array_equal(new.group_parents, tree.group_parents)
    assert new.pinned == tree.pinned
    np.testing.assert_array_equal(
        np.sort(new.class_rows), np.sort(tree.class_rows)
    )
    if keep_depths:
        np.testing.assert_array_equal(depths(new), depths(tree))
        at_root = tree.class_rows < tree.group_offsets[1]
        np.testing.assert_array_equal(
            new.class_rows[at_root], tree.class_rows[at_root]
        )


@pytest.mark.parametrize(
    "tree, keep_depths",
    [
        (Tree.balanced(125, 5), True),
        (Tree.huffman(1 + np.arange(125), branching=5), False),
        (Tree.from_counts(1 + np.arange(125), branching=5), True),
    ],
)
def test_similar_classes_share_groups(tree, keep_depths):
    vectors, clusters = latent(125)
    before = purity(tree, clusters)
    after = purity(tree.regroup(vectors, keep_depths=keep_depths), clusters)
    assert after > before + 0.4


def test_siblings_keep_their_order():
    """Where groups have the same classes as before, nothing moves."""
    tree = Tree.from_nested([[3, 1, 0], [5, 2, 4]])
    vectors = np.eye(2)[[0, 0, 1, 0, 1, 1]]
    new = tree.regroup(vectors)
    groups = [set(new.classes_below(row)) for row in (0, 1)]
    assert {0, 1, 3} in groups and {2, 4, 5} in groups
    first = new.class_rows[[3, 1, 0]]
    assert np.diff(first).tolist() == [1, 1]


def test_names_move_with_their_classes():
    names = [f"class {c}" for c in range(30)]
    tree = Tree.balanced(30, 3).with_class_names(names)
    vectors, _ = latent(30)
    new = tree.regroup(vectors, seed=1)
    assert new != tree
    assert [new.class_name(c) for c in range(30)] == names
    inner = np.setdiff1d(np.arange(new.num_rows), new.class_rows)
    assert set(new.names[inner]) == {""}


def test_the_seed_decides():
    tree, (vectors, _) = Tree.balanced(90, 3), latent(90)
    trees = [tree.regroup(vectors, seed=seed) for seed in (4, 4, 5)]
    assert trees[0] == trees[1] != trees[2]


def test_tells_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr("tf_hsm.tree.builders.progress._SECONDS", 0)
    Tree.balanced(30, 3).regroup(latent(30)[0], verbose=True)
    assert "Tree.regroup: level 1 of" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"vectors": np.ones([8, 2])}, "vectors has 8 rows; it must have one"),
        ({"vectors": np.ones(9)}, "must have rank 2"),
        ({"vectors": np.full([9, 2], np.nan)}, "class 0 has nan"),
        ({"vectors": np.ones([9, 2]), "seed": -1}, "seed is -1"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        Tree.balanced(9, 3).regroup(**arguments)
