"""Words and their windows, made slice by slice of a text."""

from typing import NamedTuple

import numpy as np

# Tokens of a slice, whose edge ends a sentence.
SLICE = 32_768


class Slice(NamedTuple):
    """What is trained on at once.

    Attributes:
        examples: what `Model.train` takes: the arrays that `skip_gram` or
            `cbow` returns.
        num_words: how many words of the text this is, with those that
            subsampling has left out.
    """

    examples: tuple[np.ndarray, ...]
    num_words: int


class Windows:
    """The slices of a text, in any order and as often as asked for.

    What subsampling leaves out is nobody's neighbour: the others move together.
    A window reaches some words to either side, from 1 to `window` with equal
    chances, but not past the end of a sentence.
    """

    def __init__(self, text, settings):
        """Takes a `text.Text`; reads nothing of it yet."""
        self._text = text
        self._settings = settings
        self._chances = keep_probabilities(text.counts, settings.sample)
        self._examples = {"skip_gram": skip_gram, "cbow": cbow}[
            settings.architecture
        ]

    def __len__(self):
        """The number of slices of the text."""
        return -(-len(self._text) // SLICE)

    def slice(self, epoch, index):
        """The `Slice` at `index`, with random numbers of its own per epoch."""
        rng = np.random.default_rng([self._settings.seed, epoch, index])
        begin = index * SLICE
        words, sentences = self._text.read(begin, begin + SLICE)
        num_words = len(words)
        kept = rng.random(num_words) < self._chances[words]
        words, sentences = words[kept], sentences[kept]
        reaches = rng.integers(
            1, self._settings.window, len(words), endpoint=True
        )
        order = rng.permutation(len(words))
        places = neighbours(sentences, reaches, order)
        return Slice(self._examples(words, *places, rng), num_words)


def keep_probabilities(counts, sample):
    """The chances `[N]` of words to be kept where they occur; at most 1.

    word2vec.c's formula, with f the share of a word in the text:

        sqrt(sample / f) + sample / f

    The paper (Mikolov et al., 2013: Distributed Representations of Words and
    Phrases and their Compositionality) has the first term only.

    Args:
        counts: `[N]`, above 0.
        sample: the share from which on words are left out; 0: keep all.
    """
    if not sample:
        return np.ones(len(counts))
    ratios = sample * (np.sum(counts) / counts)
    return np.minimum(np.sqrt(ratios) + ratios, 1)


def neighbours(sentences, reaches, order):
    """Pairs every word with the words of its window.

    Args:
        sentences: `[m]`, equal for words of the same sentence.
        reaches: `[m]`, to how many words on either side each window reaches.
        order: `[m]`, a permutation of the words' places: in which order they
            are the middle of their windows.

    Returns:
        `middles` and `others`, `[p]` each: places of words.
    """
    furthest = reaches.max(initial=0)
    offsets = np.concatenate(
        [np.arange(-furthest, 0), np.arange(1, furthest + 1)]
    )
    # [m, 2 * furthest]
    others = order[:, None] + offsets
    inside = abs(offsets) <= reaches[order, None]
    inside &= (others >= 0) & (others < len(order))
    others[~inside] = 0
    inside &= sentences[others] == sentences[order, None]
    return order[np.nonzero(inside)[0]], others[inside]


def skip_gram(words, middles, others, rng):
    """Examples of one word that predicts another, in random order.

    As in word2vec.c, it is a word of the window that predicts the one in the
    middle. The order keeps pairs with the same word apart, which a batch would
    add up.

    Returns:
        `contexts` and `labels`, `[p]` int32 each.
    """
    order = rng.permutation(len(middles))
    return words[others[order]], words[middles[order]]


def cbow(words, middles, others, rng):
    """Examples of a window that predicts the word in its middle.

    Returns:
        `contexts`, `[p]` int32, the words of all windows; `splits`, `[n + 1]`
        int32, window i being `contexts[splits[i]:splits[i + 1]]`; and `labels`,
        `[n]` int32.
    """
    del rng  # `order` has been random.
    starts = np.flatnonzero(np.diff(middles, prepend=-1))
    splits = np.append(starts, len(middles)).astype(np.int32)
    return words[others], splits, words[middles[starts]]
