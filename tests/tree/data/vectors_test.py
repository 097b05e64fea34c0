"""Vectors of classes, against a dense singular value decomposition."""

import numpy as np
import pytest

from tf_hsm.tree.data import pair_vectors
from tf_hsm.tree.data.pair_vectors import associations, class_vectors
from tf_hsm.tree.data.pairs import PairCounter


def random_pairs(num_classes=60, num_features=40, size=3000, seed=0):
    rng = np.random.default_rng(seed)
    counter = PairCounter()
    classes = (num_classes * rng.random(size) ** 2).astype(np.int64)
    features = (classes * 7 + rng.integers(9, size=size)) % num_features
    counter.add(classes, features)
    return counter.pairs()


def dense(pairs, num_classes):
    """The associations as a matrix, one entry after the other."""
    shape = num_classes, pairs.features.max() + 1
    counts, matrix = np.zeros(shape), np.zeros(shape)
    counts[pairs.classes, pairs.features] = pairs.counts
    for c, f in np.argwhere(counts):
        expected = counts[c].sum() * counts[:, f].sum() / counts.sum()
        information = max(np.log(counts[c, f] / expected), 0)
        matrix[c, f] = np.log(1 + counts[c, f]) * information
    return matrix


def test_associations():
    pairs = random_pairs()
    matrix = dense(pairs, 60)
    np.testing.assert_allclose(
        associations(pairs), matrix[pairs.classes, pairs.features], 1e-6, 1e-6
    )


@pytest.mark.parametrize("width", [3, 20])
def test_products_are_those_of_the_best_approximation(width):
    pairs = random_pairs()
    vectors = class_vectors(pairs, 60, width, seed=3)
    assert vectors.shape == (60, width) and vectors.dtype == np.float32
    u, s, _ = np.linalg.svd(dense(pairs, 60))
    u, s = u[:, :width], s[:width]
    # U sqrt(S) is known up to the signs of its columns.
    np.testing.assert_allclose(
        vectors @ vectors.T, u * s @ u.T, atol=0.02 * s[0]
    )


def test_more_numbers_than_features():
    pairs = random_pairs(num_features=5)
    vectors = class_vectors(pairs, 80, 64, seed=0)
    u, s, _ = np.linalg.svd(dense(pairs, 80), full_matrices=False)
    np.testing.assert_allclose(
        vectors @ vectors.T, u * s @ u.T, atol=1e-4 * s[0]
    )
    # Classes that do not occur have no direction.
    assert not vectors[60:].any()


def test_features_that_occur_together(monkeypatch):
    """Half as many directions as features, and products in parts."""
    monkeypatch.setattr(pair_vectors, "_ONE_THREAD", 1000)
    pairs = random_pairs()
    counter = PairCounter()
    for copy in range(2):
        counter.add(
            np.repeat(pairs.classes, pairs.counts),
            np.repeat(2 * pairs.features + copy, pairs.counts),
        )
    pairs = counter.pairs()
    vectors = class_vectors(pairs, 60, 70, seed=0)
    u, s, _ = np.linalg.svd(dense(pairs, 60), full_matrices=False)
    np.testing.assert_allclose(
        vectors @ vectors.T, u * s @ u.T, atol=1e-3 * s[0]
    )


def test_nothing_is_associated():
    counter = PairCounter()
    counter.add(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    assert not class_vectors(counter.pairs(), 3, 4, seed=0).any()
