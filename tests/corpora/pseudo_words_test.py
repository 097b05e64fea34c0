"""Spellings of numbered words, and text of them."""

import itertools

import numpy as np

from examples.corpora.synthetic import pseudo_words


def test_spellings_differ_and_alternate():
    spellings = pseudo_words.Spellings(40_000, letters=1.0)
    words = [spellings[rank] for rank in range(40_000)]
    assert len(set(words)) == 40_000
    lengths = np.array([len(word) for word in words])
    np.testing.assert_array_equal(spellings.sizes, lengths + 1)
    assert lengths.min() == 1
    assert lengths.max() == 6
    assert lengths[:100].mean() < lengths[100:1000].mean() - 0.5
    for word in words:
        vowels = [letter in "aeiouy" for letter in word]
        assert all(a != b for a, b in itertools.pairwise(vowels))


def test_more_words_than_short_spellings():
    """Those that find none are longer, and none is used twice."""
    spellings = pseudo_words.Spellings(60_000, letters=-3.0)
    assert len({spellings[rank] for rank in range(60_000)}) == 60_000
    assert np.bincount(spellings.sizes)[2:5].tolist() == [26, 240, 3120]


def test_text_of_words_is_their_spellings():
    spellings = pseudo_words.Spellings(1000, letters=1.5)
    rng = np.random.default_rng(0)
    ranks = rng.integers(1000, size=777).astype(np.int32)
    ends = rng.random(777) < 0.1
    text, stops = spellings.write(ranks, ends)
    pieces = [
        spellings[rank] + ("\n" if end else " ")
        for rank, end in zip(ranks, ends, strict=True)
    ]
    assert bytes(text).decode() == "".join(pieces)
    assert stops.tolist() == np.cumsum([len(p) for p in pieces]).tolist()
