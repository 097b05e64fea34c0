"""Semantic IDs by residual k-means."""

import pickle

import numpy as np
import pytest

from tf_hsm import Tree, semantic_ids


def make_vectors(count=120, width=4, seed=0):
    return np.random.default_rng(seed).normal(size=[count, width])


def test_ids():
    """Each item has its own path, and each code as many items."""
    codes = semantic_ids(make_vectors(), [4, 6], verbose=False)
    assert codes.shape == (120, 3) and codes.dtype == np.int32
    assert len(np.unique(codes, axis=0)) == 120
    for level, size in enumerate([4, 6]):
        counts = np.bincount(codes[:, level])
        assert counts.size == size and np.ptp(counts) <= 1
    assert Tree.from_paths(codes).num_classes == 120
    # Those of equal codes are numbered from 0 on, in the order of items.
    for pair in np.unique(codes[:, :2], axis=0):
        last = codes[(codes[:, :2] == pair).all(1), 2]
        np.testing.assert_array_equal(last, np.arange(last.size))


def test_residuals():
    """The second code divides what the first one has left over."""
    rng = np.random.default_rng(1)
    first, second = rng.permuted(np.arange(100) % 5), np.arange(100) % 2
    centers = 100 * rng.normal(size=[5, 3])
    offsets = np.array([[1, 1, 0], [-1, -1, 0.0]])
    # An item's second part is the same in every cluster of the first.
    order = np.lexsort([second, first])
    first[order] = np.repeat(np.arange(5), 20)
    second[order] = np.tile([0, 1], 50)
    noise = 0.01 * rng.normal(size=[100, 3])
    vectors = centers[first] + offsets[second] + noise
    codes = semantic_ids(vectors, [5, 2], metric="euclidean", verbose=False)
    for found, wanted in ((codes[:, 0], first), (codes[:, 1], second)):
        pairs = np.unique(np.stack([found, wanted], 1), axis=0)
        assert len(pairs) == wanted.max() + 1


def test_few_items():
    """Fewer items than codes, and levels of one code."""
    codes = semantic_ids(make_vectors(3), [8, 1], verbose=False)
    assert sorted(codes[:, 0]) == [0, 1, 2]
    assert (codes[:, 1:] == 0).all()
    same = semantic_ids(np.ones([4, 2]), [1], verbose=False)
    np.testing.assert_array_equal(same, [[0, 0], [0, 1], [0, 2], [0, 3]])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_codes": 4}, "a list with a number for each level, not 4"),
        ({"num_codes": []}, "a list with a number for each level"),
        ({"num_codes": [4, 0]}, "num_codes is 0; it must be at least 1"),
        ({"metric": "dot"}, "metric is 'dot'"),
        ({"vectors": np.full([3, 2], np.nan)}, "vector of class 0 has nan"),
        ({"vectors": np.ones(3)}, "must have rank 2"),
    ],
)
def test_wrong_arguments(arguments, message):
    options = {"vectors": make_vectors(), "num_codes": [4], **arguments}
    with pytest.raises(ValueError, match=message):
        semantic_ids(**options, verbose=False)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_encoder(metric):
    """Codes of the nearest means, by the definition in float64."""
    vectors = 1e6 + 1e3 * make_vectors(120, 3)
    if metric == "cosine":
        vectors -= 1e6
    codes, encoder = semantic_ids(
        vectors, [4, 6], metric=metric, verbose=False, return_encoder=True
    )
    np.testing.assert_array_equal(
        codes, semantic_ids(vectors, [4, 6], metric=metric, verbose=False)
    )
    new = vectors[:60] + 200 * make_vectors(60, 3, seed=1)

    def rest_of(x):
        if metric == "cosine":
            return x / np.linalg.norm(x, axis=1, keepdims=True)
        return x.copy()

    old_rest, rest, wanted = rest_of(vectors), rest_of(new), []
    for column in codes.T[:-1]:
        means = np.stack(
            [old_rest[column == c].mean(0) for c in range(column.max() + 1)]
        )
        distances = np.square(rest[:, np.newaxis] - means).sum(2)
        wanted.append(distances.argmin(1))
        old_rest -= means[column]
        rest -= means[wanted[-1]]
    found = encoder.encode(new, codes)
    assert found.dtype == np.int32
    same = (found[:, :-1] == np.stack(wanted, 1)).all(1)
    assert same.mean() > 0.98  # the rest lies between two means
    both = np.concatenate([codes, found])
    assert len(np.unique(both, axis=0)) == 180
    assert Tree.from_paths(both).num_classes == 180
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(encoder)).encode(new, codes), found
    )


def test_encoder_counts_on():
    """The last code is above the last codes of earlier items of a path."""
    codes, encoder = semantic_ids(
        np.eye(4), [4], verbose=False, return_encoder=True
    )
    new = np.eye(4)[[2, 0, 2]]
    first = encoder.encode(new)
    own = codes[[2, 0, 2], 0]
    np.testing.assert_array_equal(first, np.stack([own, [0, 0, 1]], 1))
    second = encoder.encode(new, codes)
    np.testing.assert_array_equal(second, np.stack([own, [1, 1, 2]], 1))
    # Items that are gone leave their numbers unused.
    third = encoder.encode(new, second[[2]])
    np.testing.assert_array_equal(third, np.stack([own, [3, 0, 4]], 1))


def test_encoder_refuses_other_shapes():
    codes, encoder = semantic_ids(
        make_vectors(), [4, 6], verbose=False, return_encoder=True
    )
    with pytest.raises(ValueError, match="vectors of 4 numbers"):
        encoder.encode(np.ones([2, 3]))
    with pytest.raises(ValueError, match=r"it must be \[items, 3\]"):
        encoder.encode(make_vectors(2), codes[:, :2])
    with pytest.raises(ValueError, match="finite"):
        encoder.encode(np.full([2, 4], np.nan))
