"""Sparse counts of pairs, against a dictionary."""

import collections

import numpy as np
import pytest

from tf_hsm.tree.data import pairs as pairs_module
from tf_hsm.tree.data.pairs import PairCounter, Pairs


def counted(classes, features):
    counter = PairCounter()
    counter.add(np.array(classes), np.array(features))
    return counter.pairs()


def as_dict(pairs):
    keys = zip(pairs.classes.tolist(), pairs.features.tolist(), strict=True)
    return dict(zip(keys, pairs.counts.tolist(), strict=True))


@pytest.mark.parametrize("buffer", [1, 7, 1000])
@pytest.mark.parametrize("largest", [5, 2**31])
def test_batches(monkeypatch, buffer, largest):
    monkeypatch.setattr(pairs_module, "_BUFFER", buffer)
    rng = np.random.default_rng(0)
    counter, expected = PairCounter(), collections.Counter()
    for size in (0, 1, 30, 400, 3, 0, 50):
        classes = rng.integers(largest, size=size) // 3 * 3
        features = (2 * largest * rng.random(size) ** 3).astype(np.int64)
        counter.add(classes, features)
        expected.update(zip(classes.tolist(), features.tolist(), strict=True))
    pairs = counter.pairs()
    assert as_dict(pairs) == expected
    keys = list(as_dict(pairs))
    assert keys == sorted(keys)
    assert not counter.pairs().counts.size


def test_no_pair():
    assert PairCounter().pairs().counts.size == 0


def test_most_frequent_features():
    pairs = counted([0, 1, 1, 2, 2, 2], [9, 5, 9, 9, 3, 3]).renumbered()
    assert as_dict(pairs.most_frequent(2)) == {
        (0, 1): 1,
        (1, 1): 1,
        (2, 1): 1,
        (2, 0): 2,
    }
    assert as_dict(pairs.most_frequent(3)) == as_dict(pairs)


def test_merged_features():
    pairs = counted([0, 0, 0, 1], [4, 5, 6, 4])
    assert as_dict(pairs.merged(2)) == {
        (0, 2): 2,
        (0, 3): 1,
        (1, 2): 1,
    }


def test_samples_have_all_pairs_of_a_feature():
    rng = np.random.default_rng(1)
    pairs = counted(rng.integers(30, size=2000), rng.integers(50, size=2000))
    sample = pairs.sampled(300, np.random.default_rng(2))
    kept = set(sample.features.tolist())
    assert 0 < len(kept) < 50 and sample.counts.size <= 300
    expected = {
        key: count for key, count in as_dict(pairs).items() if key[1] in kept
    }
    assert as_dict(sample) == expected
    assert isinstance(sample, Pairs)


def test_renumbered_features():
    pairs = counted([0, 1, 1], [2**32 - 1, 7, 2**31]).renumbered()
    assert pairs.features.tolist() == [2, 0, 1]
    assert as_dict(pairs.renumbered()) == as_dict(pairs)
    small = counted([0, 1, 1], [5, 7, 0]).renumbered()
    assert small.features.tolist() == [1, 0, 2]


def test_a_sample_is_never_empty():
    pairs = counted(np.arange(50), np.zeros(50, int))
    sample = pairs.sampled(3, np.random.default_rng(0))
    assert sample.counts.size == 50
