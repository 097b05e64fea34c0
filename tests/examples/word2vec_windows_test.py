"""Texts of word2vec, and the examples that their windows give."""

import collections

import numpy as np
import pytest

from examples.corpora import corpus
from examples.word2vec import text, windows
from tests.support.word2vec_runs import make_settings, make_text


def test_text_is_that_of_word2vec():
    words = ["\n", "the", "<unk>", "cat", "<eof>", "\n  ", "</s>"]
    loaded = corpus.Corpus(
        words=tuple(words),
        counts=np.array([9, 8, 7, 6, 5, 4, 3]),
        train=np.array([1, 3, 0, 3, 2, 1, 5, 4, 3, 6, 1], np.int32),
        valid=np.zeros(0, np.int32),
        test=np.zeros(0, np.int32),
        unknown=2,
        digest="",
    )
    by_line = text.of_corpus(loaded, "line")
    assert by_line.words == ("the", "cat")
    assert by_line.counts.tolist() == [8, 6]
    ids, sentences = by_line.read(0, 99)
    assert ids.tolist() == [0, 1, 1, 0, 1, 0]
    assert sentences.tolist() == [0, 0, 1, 1, 3, 4]
    ids, sentences = text.of_corpus(loaded, "document").read(1, 10)
    assert ids.tolist() == [1, 1, 0, 1]
    assert sentences.tolist() == [0, 0, 0, 1]


def pairs_one_by_one(words, sentences, reaches):
    """Yields (other, middle) by the definition of a window."""
    for i, reach in enumerate(reaches):
        for j in range(i - reach, i + reach + 1):
            if j != i and 0 <= j < len(words) and sentences[i] == sentences[j]:
                yield words[j], words[i]


@pytest.mark.parametrize("num_words", [0, 1, 2, 61])
def test_windows_against_loops(num_words):
    rng = np.random.default_rng(num_words)
    words = rng.integers(9, size=num_words).astype(np.int32)
    sentences = np.sort(rng.integers(1 + num_words // 7, size=num_words))
    reaches = rng.integers(1, 6, num_words)
    order = rng.permutation(num_words)
    places = windows.neighbours(sentences, reaches, order)
    expected = collections.Counter(pairs_one_by_one(words, sentences, reaches))
    contexts, labels = windows.skip_gram(words, *places, rng)
    assert collections.Counter(zip(contexts, labels, strict=True)) == expected
    contexts, splits, labels = windows.cbow(words, *places, rng)
    assert (np.diff(splits) > 0).all()
    assert splits[0] == 0 and splits[-1] == len(contexts)
    bags = np.split(contexts, splits[1:-1]) if len(labels) else []
    found = [
        (other, label)
        for bag, label in zip(bags, labels, strict=True)
        for other in bag
    ]
    assert collections.Counter(found) == expected
    # The middles come in the order asked for.
    alone = [i for i in order if np.sum(sentences == sentences[i]) > 1]
    assert labels.tolist() == words[alone].tolist()


def test_slices_are_the_whole_text_and_repeat(monkeypatch):
    monkeypatch.setattr(windows, "SLICE", 64)
    source = make_text()
    made_with = make_settings(sample=0.05)
    made = windows.Windows(source, made_with)
    slices = [made.slice(0, i) for i in range(len(made))]
    assert len(slices) == 8
    assert sum(s.num_words for s in slices) == source.counts.sum()
    again = windows.Windows(source, made_with).slice(0, 3)
    later = made.slice(1, 3)
    for array, same in zip(slices[3].examples, again.examples, strict=True):
        np.testing.assert_array_equal(array, same)
        assert array.dtype == np.int32
    assert again.num_words == later.num_words
    assert again.examples[0].tolist() != later.examples[0].tolist()


def test_reaches_and_chances_are_as_often_as_said(monkeypatch):
    """In a text of one word, the sizes of windows show their reaches."""
    monkeypatch.setattr(windows, "SLICE", 1 << 20)
    classes = np.zeros(200_000, np.int32)
    word = np.zeros(1, np.int32)
    source = text.Text(("a",), np.array([len(classes)]), classes, word)
    chosen = make_settings(architecture="cbow", window=4, sample=0.25)
    piece = windows.Windows(source, chosen).slice(0, 0)
    assert piece.num_words == len(classes)
    sizes, counts = np.unique(np.diff(piece.examples[1]), return_counts=True)
    shares = dict(zip(sizes.tolist(), counts / counts.sum(), strict=True))
    for size in 2, 4, 6, 8:
        assert shares[size] == pytest.approx(0.25, abs=0.01)
    assert counts.sum() / len(classes) == pytest.approx(0.75, abs=0.01)
