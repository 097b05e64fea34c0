"""Trees of frequency clusters: their shape, and their probabilities."""

import itertools

import numpy as np
import pytest

from tests.support.tree_reference import check
from tf_hsm.cost.cutoffs import cutoffs as best_cutoffs
from tf_hsm.tree import Tree

TAILS = ["flat", "two_level", 2, 3, 100]


def by_frequency(counts):
    return sorted(range(len(counts)), key=lambda c: (-counts[c], c))


def nested_tail(classes, tail):
    """The tail's classes, spread like those of the builder it is named by."""
    size = len(classes)
    if tail == "flat" or (tail == "two_level" and size <= 3):
        return classes
    if tail == "two_level":
        groups = np.array_split(classes, round(size**0.5))
        return [group.tolist() for group in groups]
    if size == 1:
        return classes
    parts = np.array_split(classes, min(tail, size))
    return [
        int(part[0]) if part.size == 1 else nested_tail(part.tolist(), tail)
        for part in parts
    ]


def nested_of(counts, cutoffs, tail):
    order = by_frequency(counts)
    ends = [*cutoffs, len(counts)]
    tails = [
        nested_tail(order[begin:end], tail)
        for begin, end in itertools.pairwise(ends)
    ]
    return [*order[: ends[0]], *tails]


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("seed", range(6))
def test_shape(seed, tail):
    rng = np.random.default_rng(seed)
    num_classes = int(rng.integers(5, 120))
    counts = rng.integers(0, 9, num_classes)
    num_tails = int(rng.integers(0, 4))
    cutoffs = np.sort(
        rng.choice(np.arange(1, num_classes), num_tails, replace=False)
    )
    for given in (counts, counts.tolist(), counts / 7):
        tree = Tree.adaptive(given, tail=tail, cutoffs=cutoffs.tolist())
        check(tree, nested_of(counts, cutoffs.tolist(), tail))


@pytest.mark.parametrize("tail", TAILS)
def test_best_cutoffs(tail):
    rng = np.random.default_rng(0)
    counts = rng.permutation(10_000 // np.arange(1, 401))
    for num_clusters in ("auto", 1, 3, range(3)):
        tree = Tree.adaptive(
            counts, num_clusters=num_clusters, batch=100, width=32, tail=tail
        )
        cutoffs = best_cutoffs(
            np.sort(counts)[::-1],
            num_clusters,
            batch=100,
            width=32,
            tail=tail,
        )
        check(tree, nested_of(counts, cutoffs, tail))
        if isinstance(num_clusters, int):
            assert len(cutoffs) == num_clusters


@pytest.mark.parametrize("tail", TAILS)
def test_few_classes(tail):
    for num_classes in range(1, 6):
        for counts in ([0] * num_classes, [1] * num_classes):
            tree = Tree.adaptive(counts, tail=tail)
            assert tree.num_classes == num_classes
            assert tree.row_classes[: min(num_classes, 2)].tolist() == [
                *range(min(num_classes, 2))
            ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": []}, "counts is empty"),
        ({"counts": [1, -1]}, "count of class 1 is -1"),
        ({"cutoffs": [0]}, r"cutoffs\[0\] is 0; it must be above 0"),
        ({"cutoffs": [2, 2]}, r"cutoffs\[1\] is 2; it must be above 2"),
        ({"cutoffs": [2, 6]}, r"cutoffs\[1\] is 6; .* below the 6 classes"),
        ({"cutoffs": [2.0]}, "cutoffs must hold integers"),
        ({"cutoffs": [2], "tail": 1}, "tail is 1"),
        ({"cutoffs": [2], "tail": "round"}, "tail is 'round'"),
        ({"tail": "round"}, "tail is 'round'"),
        ({"num_clusters": 5}, "num_clusters is 5"),
        ({"batch": 0}, "batch is 0"),
        ({"width": 0}, "width is 0"),
        ({"min_head": 0}, "min_head is 0"),
    ],
)
def test_bad_arguments(changes, message):
    with pytest.raises(ValueError, match=message):
        Tree.adaptive(**({"counts": [6, 5, 4, 3, 2, 1]} | changes))
