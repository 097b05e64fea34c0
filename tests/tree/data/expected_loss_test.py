"""The leave-one-out loss, against one pair predicted after the other."""

import numpy as np
import pytest

from tests.support.trees import CATALOGUE
from tf_hsm import Tree
from tf_hsm.tree.data.expected_loss import (
    _STRENGTHS,
    leave_one_out_losses,
    paths,
)
from tf_hsm.tree.data.pairs import PairCounter

SMALL = [
    "two_level_7",
    "balanced_5ary_113",
    "huffman_2ary",
    "chain_50",
    "flat",
    "only_children",
    "random",
]


def pairs_of(classes, features):
    counter = PairCounter()
    counter.add(np.asarray(classes), np.asarray(features))
    return counter.pairs()


def paths_of(tree):
    return paths(tree._arrays, tree._levels)


def reference(paths, classes, features, counts):
    """Predicts each pair by a loop over the others."""
    counts = np.maximum(counts, 0.5)
    everything = set(range(len(paths)))
    below = [
        {c for c in everything if node in paths[c]}
        for node in range(paths.max() + 1)
    ]

    def mass(some):
        return sum(counts[c] for c in some)

    losses = np.zeros(_STRENGTHS.size)
    for i, (c, f) in enumerate(zip(classes, features, strict=True)):
        others = [
            classes[j]
            for j in range(len(classes))
            if j != i and features[j] == f
        ]
        parents = everything
        for node in paths[c][paths[c] >= 0]:
            n_row = sum(other in below[node] for other in others)
            n_parent = sum(other in parents for other in others)
            share = mass(below[node]) / mass(parents)
            losses -= np.log(
                (n_row + _STRENGTHS * share) / (n_parent + _STRENGTHS)
            )
            parents = below[node]
    return losses.min() / len(classes)


def data_of(size):
    rng = np.random.default_rng(0)
    classes = (size * rng.random(60) ** 2).astype(int).tolist()
    features = (np.array(classes) // 2 + rng.integers(3, size=60)).tolist()
    return classes, features, np.bincount(classes, minlength=size)


@pytest.mark.parametrize("name", SMALL)
def test_loss(name):
    tree = CATALOGUE[name]()
    classes, features, counts = data_of(tree.num_classes)
    pairs, order = pairs_of(classes, features), np.arange(counts.size)
    (loss,) = leave_one_out_losses(paths_of(tree), pairs, counts, order, [0])
    expected = reference(paths_of(tree), classes, features, counts)
    assert loss == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["balanced_5ary_113", "huffman_2ary"])
def test_leaves_of_the_root(name):
    tree = CATALOGUE[name]()
    classes, features, counts = data_of(tree.num_classes)
    order = np.random.default_rng(1).permutation(tree.num_classes)
    order = order[np.argsort(-counts[order] // 4, kind="stable")]
    sizes = [0, 1, 7, tree.num_classes]
    losses = leave_one_out_losses(
        paths_of(tree), pairs_of(classes, features), counts, order, sizes
    )
    for size, loss in zip(sizes, losses, strict=True):
        tried = paths_of(tree)
        tried[order[:size]] = -1
        tried[order[:size], 0] = tree.num_rows + np.arange(size)
        expected = reference(tried, classes, features, counts)
        assert loss == pytest.approx(expected, rel=1e-9)
    assert np.unique(losses).size == len(sizes)


def test_paths():
    tree = Tree.from_nested([[0, 1], [2, [3, 4]]])
    assert paths_of(tree).tolist() == [
        list(tree.path(c)) + [-1] * (3 - tree.path(c).size) for c in range(5)
    ]
