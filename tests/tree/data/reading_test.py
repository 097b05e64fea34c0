"""The labels whose pairs are counted: all of rare classes, some of others."""

import numpy as np
import pytest

from tf_hsm.tree.data import reading

M, BATCH = 20, 10
COUNTS = np.array([0, 1, M, 3000, 40_000])
# How many labels, by whether they are in an array; or one after another.
EXPECTED = {
    True: np.minimum(COUNTS, M),
    False: [sum(min(1, M / n) for n in range(1, c + 1)) for c in COUNTS],
}


def labels_and_contexts():
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(COUNTS.size), COUNTS))
    return labels, rng.integers(7, size=labels.size)


def reader_of(labels, contexts, are_sets, is_array, seed=1):
    """Reads labels, of which the first ones are none."""
    sample = M, np.random.default_rng(seed)
    reader = reading.Reader(None, False, lambda text: None, are_sets, sample)
    labels = np.append([-1] * BATCH, labels)
    contexts = np.append([3] * BATCH, contexts)
    if are_sets:
        labels = np.stack([labels, np.full_like(labels, -1)], 1)
    if is_array:
        reader.read(labels, contexts)
        return reader
    parts = np.arange(BATCH, labels.shape[0], BATCH)
    batches = zip(
        np.split(contexts, parts), np.split(labels, parts), strict=True
    )
    reader.read(batches, None)
    return reader


@pytest.mark.parametrize("are_sets", [False, True])
@pytest.mark.parametrize("is_array", [False, True])
def test_sampled_labels(are_sets, is_array):
    labels, contexts = labels_and_contexts()
    readers = [
        reader_of(labels, contexts, are_sets, is_array, seed)
        for seed in range(9)
    ]
    found = np.mean([reader.sampled_counts for reader in readers], 0)
    expected = EXPECTED[is_array]
    # A few dozen labels of nine samples.
    np.testing.assert_allclose(found, expected, rtol=0.2)
    assert (found[:3] == COUNTS[:3]).all()
    # The contexts are the labels' own.
    all_pairs = np.zeros([COUNTS.size, 7], int)
    np.add.at(all_pairs, (labels, contexts), 1)
    for reader in readers:
        assert (reader.counts == COUNTS).all()
        pairs = reader.pairs()
        sums = np.bincount(pairs.classes, pairs.counts, COUNTS.size)
        assert (sums == reader.sampled_counts).all()
        counts = np.zeros_like(all_pairs)
        counts[pairs.classes, pairs.features] = pairs.counts
        assert (counts <= all_pairs).all()


def test_an_array_is_sampled_evenly(monkeypatch):
    """Early and late examples alike, whatever the size of its parts."""
    labels = np.zeros(40_000, int)
    contexts = np.arange(labels.size) // 4000
    samples = []
    for seed in range(9):
        data = labels, contexts, False, True, seed
        samples.append(reader_of(*data).pairs())
        monkeypatch.setattr(reading, "_CHUNK", 777)
        again = reader_of(*data).pairs()
        monkeypatch.undo()
        assert (again.counts == samples[-1].counts).all()
        assert (again.features == samples[-1].features).all()
    sums = sum(np.bincount(p.features, p.counts, 10) for p in samples)
    np.testing.assert_allclose(sums, 9 * M / 10, atol=15)
    assert not np.array_equal(samples[0].counts, samples[1].counts)
