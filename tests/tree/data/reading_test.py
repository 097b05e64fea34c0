"""The labels whose pairs are counted: all of rare classes, some of others."""

import numpy as np
import pytest

from tf_hsm.tree.data.reading import Reader

M, BATCH = 20, 10
COUNTS = np.array([0, 1, M, 3000, 40_000])
# One label after another.
EXPECTED = [sum(min(1, M / n) for n in range(1, c + 1)) for c in COUNTS]


def labels_and_contexts():
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(COUNTS.size), COUNTS))
    return labels, rng.integers(7, size=labels.size)


def reader_of(labels, contexts, are_sets, seed=1):
    """Reads batches, of which the first one has no label."""
    reader = Reader(
        None,
        False,
        lambda text: None,
        are_sets,
        (M, np.random.default_rng(seed)),
    )
    labels, contexts = (
        np.append([-1] * BATCH, labels),
        np.append([3] * BATCH, contexts),
    )
    if are_sets:
        labels = np.stack([labels, np.full_like(labels, -1)], 1)
    parts = np.arange(BATCH, labels.shape[0], BATCH)
    batches = zip(
        np.split(contexts, parts), np.split(labels, parts), strict=True
    )
    reader.read(batches, None)
    return reader


@pytest.mark.parametrize("are_sets", [False, True])
def test_sampled_labels(are_sets):
    labels, contexts = labels_and_contexts()
    reader = reader_of(labels, contexts, are_sets)
    assert (reader.counts == COUNTS).all()
    found = reader.sampled_counts
    assert (found[:3] == COUNTS[:3]).all()
    np.testing.assert_allclose(found[3:], EXPECTED[3:], rtol=0.15)
    pairs = reader.pairs()
    assert (np.bincount(pairs.classes, pairs.counts) == found).all()
    # The contexts are the labels' own.
    all_pairs = np.zeros([COUNTS.size, 7], int)
    np.add.at(all_pairs, (labels, contexts), 1)
    counts = np.zeros_like(all_pairs)
    counts[pairs.classes, pairs.features] = pairs.counts
    assert (counts <= all_pairs).all()
    assert (counts[:3] == all_pairs[:3]).all()
    # Each label of a frequent class may be chosen.
    np.testing.assert_allclose(counts[4], found[4] / 7, rtol=0.5)


def test_other_labels_are_chosen_with_another_seed():
    data = labels_and_contexts()
    first, same, other = (
        reader_of(*data, are_sets=False, seed=seed).pairs()
        for seed in (1, 1, 2)
    )
    assert (first.counts == same.counts).all()
    assert not np.array_equal(first.counts, other.counts)
