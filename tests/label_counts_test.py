"""tf_hsm.LabelCounts, against label sets that are walked one by one."""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import trees
from tests.support.label_tree_reference import parents
from tf_hsm import LabelCounts

TREE = tf_hsm.Tree.from_nested([0, [1, [2, 3, 4], [5, [6, 7]]], [8, 9]])
PINNED = tf_hsm.Tree.balanced(5, 2, pinned=True)
LABELS = np.array([[0, 3, 2], [-1, -1, -1], [7, 7, -5], [9, -1, 3], [8, 9, 1]])


def by_hand(tree, labels):
    counts = np.zeros(tree.num_rows, int)
    for its in labels:
        paths = [tree.path(c).tolist() for c in its if c >= 0]
        counts[list(set().union(*paths))] += 1
    return counts


@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_label_sets(name, monkeypatch):
    """In blocks too, whose last one is a rest."""
    tree = trees.CATALOGUE[name]()
    rng = np.random.default_rng(0)
    labels = rng.integers(-tree.num_classes, tree.num_classes, size=[47, 6])
    expected = by_hand(tree, labels)
    for block in (1, 60, 1 << 20):
        monkeypatch.setattr("tf_hsm.label_counts._BLOCK", block)
        found = LabelCounts.of(tree, labels)
        np.testing.assert_array_equal(found.rows, expected)
        assert found.examples == 47


def test_forms_of_labels():
    """Ragged, with more dimensions, added, in small types."""
    expected = by_hand(TREE, LABELS)
    ragged = tf.RaggedTensor.from_tensor(np.sort(LABELS)[:, ::-1], padding=-1)
    sequences = np.broadcast_to(LABELS[:, np.newaxis], [5, 2, 3])
    for labels, times in (
        (ragged, 1),
        (tf.constant(LABELS, tf.int32), 1),
        (LABELS.astype(np.int8), 1),
        (LABELS.tolist(), 1),
        (sequences, 2),
    ):
        found = LabelCounts.of(TREE, labels)
        np.testing.assert_array_equal(found.rows, times * expected)
        assert found.examples == 5 * times
    # In uint8 what pads ragged labels, -1, would be class 255.
    tree = tf_hsm.Tree.balanced(300, 4)
    small = LabelCounts.of(tree, tf.ragged.constant([[1], [2, 3]], tf.uint8))
    np.testing.assert_array_equal(small.rows, by_hand(tree, [[1], [2, 3]]))
    parts = LabelCounts.of(TREE, LABELS[:2]) + LabelCounts.of(TREE, LABELS[2:])
    np.testing.assert_array_equal(parts.rows, expected)
    assert parts.examples == 5


@pytest.mark.parametrize(
    "labels, examples",
    [
        (np.full([7, 3], -1), 7),
        (np.zeros([7, 0], int), 7),
        (np.zeros([2, 3, 0], int), 6),
        (np.zeros([0, 3], int), 0),
        (tf.RaggedTensor.from_row_lengths(tf.zeros([0], tf.int64), [0] * 3), 3),
    ],
)
def test_examples_without_labels(labels, examples):
    """They count, whatever says that they have none."""
    found = LabelCounts.of(TREE, labels)
    assert found.examples == examples
    assert not found.rows.any()


def test_expected():
    """The formula, and draws of labels that are independent."""
    rng = np.random.default_rng(0)
    chances = np.append(rng.random(8) / 3, [0.0, 1.0])
    draws = rng.random([40_000, 10]) < chances
    labels = np.where(draws, np.arange(10), -1)
    counts = draws.sum(0)
    found = LabelCounts.expected(TREE, counts, examples=len(draws))
    for row in range(TREE.num_rows):
        below = TREE.classes_below(row)
        without = np.prod(1 - counts[below] / len(draws))
        np.testing.assert_allclose(found.rows[row], 40_000 * (1 - without))
    exact = LabelCounts.of(TREE, labels)
    np.testing.assert_allclose(found.rows, exact.rows, rtol=0.03)
    leaves = TREE.class_rows
    np.testing.assert_allclose(found.rows[leaves], exact.rows[leaves])
    # Labels that come together have fewer examples than that.
    together = LabelCounts.of(TREE, [[2, 3, 4]] * 3 + [[-1] * 3] * 5)
    row = TREE.path(2)[-2]
    assert together.rows[row] == 3
    counts = together.rows[leaves]
    assert LabelCounts.expected(TREE, counts, examples=8).rows[row] > 4


def test_log_odds():
    """Probabilities of (n + 1/2) / (m + 1), of rows that nobody has too."""
    counts = LabelCounts.of(TREE, LABELS[[0, 1, 3]])
    above = parents(TREE)
    of_parents = np.where(above < 0, 3, counts.rows[above])
    probabilities = 1 / (1 + np.exp(-counts.log_odds()))
    np.testing.assert_allclose(
        probabilities, (counts.rows + 0.5) / (of_parents + 1), rtol=1e-12
    )
    unseen = of_parents == 0
    assert unseen.any() and (probabilities[unseen] == 0.5).all()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: LabelCounts.of(TREE, [[0, 10]]), r"labels\[0, 1\] is 10; it"),
        (lambda: LabelCounts.of(TREE, [[0.0]]), "must be integers.* float64"),
        (lambda: LabelCounts.of(TREE, 3), r"of shape \(\)"),
        (
            lambda: LabelCounts.expected(TREE, [1, 9] + [0] * 8, examples=8),
            "count of class 1 is 9; it must be at most examples, 8",
        ),
        (lambda: LabelCounts.expected(TREE, [1], examples=8), "has 1 entries"),
        (
            lambda: LabelCounts.expected(TREE, [1] * 10, examples=0),
            "examples is 0",
        ),
        (
            lambda: (
                LabelCounts.of(TREE, LABELS)
                + LabelCounts.of(tf_hsm.Tree.two_level(10), LABELS)
            ),
            "different trees",
        ),
        (lambda: LabelCounts.of(PINNED, [[1]]), "pinned, but a label tree"),
        (
            lambda: LabelCounts.expected(PINNED, np.ones(5), examples=10),
            "pinned, but a label tree",
        ),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
    with pytest.raises(TypeError):
        LabelCounts.of(TREE, LABELS) + 1
