"""Words to learn from, and words to test with, from one gloss per synset."""

import collections
import re
from typing import NamedTuple

import numpy as np

HELD_OUT_EVERY = 8
_MIN_WORDS = 6  # of a gloss that is divided
_MIN_COUNT = 2
_PADDING, _UNKNOWN = 0, 1


class Examples(NamedTuple):
    """Bags of words and the classes that they describe."""

    words: np.ndarray  # [B, T] int32, numbers of words, 0 past the last
    labels: np.ndarray  # [B] int64


class Glosses(NamedTuple):
    """The examples of both kinds."""

    vocabulary: list  # the word of each number
    training: Examples  # one for each class, in order
    held_out: Examples


def prepare(synsets, seed):
    """Divides the glosses.

    Half of the words of one synset in `HELD_OUT_EVERY` are held out: the model
    learns the synset from one half, and has to find it by the other. A synset
    whose gloss has few words is not divided.

    Args:
        synsets: as `nouns.read` returns them; class c is `synsets[c]`.
        seed: of the choice of words.
    """
    rng = np.random.default_rng(seed)
    training = [split(synset.definition) for synset in synsets]
    held_out, labels = [], []
    for c in range(0, len(synsets), HELD_OUT_EVERY):
        words = sorted(set(training[c]))
        if len(words) >= _MIN_WORDS:
            chosen = set(rng.permutation(words)[: len(words) // 2].tolist())
            held_out.append([w for w in training[c] if w in chosen])
            labels.append(c)
            training[c] = [w for w in training[c] if w not in chosen]
    counts = collections.Counter(w for words in training for w in words)
    vocabulary = ["", "<unk>"]
    vocabulary += [w for w, n in counts.most_common() if n >= _MIN_COUNT]
    numbers = {word: number for number, word in enumerate(vocabulary)}
    return Glosses(
        vocabulary,
        Examples(_encode(training, numbers), np.arange(len(synsets))),
        Examples(_encode(held_out, numbers), np.array(labels, np.int64)),
    )


def split(text):
    """Returns the words of a text, in lower case."""
    return re.findall(r"[a-z0-9]+", text.lower())


def _encode(texts, numbers):
    """Returns `[B, T]`; a text without a word is one unknown word."""
    length = max([1, *map(len, texts)])
    result = np.full((len(texts), length), _PADDING, np.int32)
    for row, words in zip(result, texts, strict=True):
        row[: max(len(words), 1)] = [
            numbers.get(word, _UNKNOWN) for word in words
        ] or _UNKNOWN
    return result
