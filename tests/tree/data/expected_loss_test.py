"""The leave-one-out loss, against one pair predicted after the other."""

import numpy as np
import pytest

from tests.support.trees import CATALOGUE
from tf_hsm import Tree
from tf_hsm.tree.data.expected_loss import (
    _STRENGTHS,
    leave_one_out_loss,
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


def reference(tree, classes, features, counts):
    """Predicts each pair by a loop over the others."""
    shares = tree.with_counts(np.maximum(counts, 0.5)).row_shares()
    below = [set(tree.classes_below(r).tolist()) for r in range(tree.num_rows)]
    losses = np.zeros(_STRENGTHS.size)
    for i, (c, f) in enumerate(zip(classes, features, strict=True)):
        others = [
            classes[j]
            for j in range(len(classes))
            if j != i and features[j] == f
        ]
        parents = set(range(tree.num_classes))
        for row in tree.path(c):
            n_row = sum(other in below[row] for other in others)
            n_parent = sum(other in parents for other in others)
            losses -= np.log(
                (n_row + _STRENGTHS * shares[row]) / (n_parent + _STRENGTHS)
            )
            parents = below[row]
    return losses.min() / len(classes)


@pytest.mark.parametrize("name", SMALL)
def test_loss(name):
    tree = CATALOGUE[name]()
    rng = np.random.default_rng(0)
    classes = (tree.num_classes * rng.random(60) ** 2).astype(int).tolist()
    features = (np.array(classes) // 2 + rng.integers(3, size=60)).tolist()
    counts = np.bincount(classes, minlength=tree.num_classes)
    assert leave_one_out_loss(
        paths_of(tree), pairs_of(classes, features), counts
    ) == pytest.approx(reference(tree, classes, features, counts), rel=1e-9)


def test_paths():
    tree = Tree.from_nested([[0, 1], [2, [3, 4]]])
    assert paths_of(tree).tolist() == [
        list(tree.path(c)) + [-1] * (3 - tree.path(c).size) for c in range(5)
    ]
