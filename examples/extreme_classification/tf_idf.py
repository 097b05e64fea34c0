"""Features of texts: TF-IDF, the weights of words.

A word that occurs n times in a text, and in d of E training texts, has the
weight (1 + ln n) ln(E / d). The weights of a text have together the length 1.
"""

import collections
import re

import numpy as np

_WORD = re.compile("[a-z0-9+]{2,}")


def word_counts(text):
    """Returns a Counter of the words of a text."""
    return collections.Counter(_WORD.findall(text.lower()))


class TfIdf:
    """The weights of words, by the frequencies in training texts.

    Args:
      counts: a list with the `word_counts` of each training text.
      min_texts: a rarer word is no feature.

    Attributes:
      words: the words in order of frequency. A feature is a position here.
    """

    def __init__(self, counts, min_texts=2):
        """See the class."""
        frequency = collections.Counter()
        for words in counts:
            frequency.update(words.keys())
        self.words = [
            word for word, n in frequency.most_common() if n >= min_texts
        ]
        self._ids = {word: i for i, word in enumerate(self.words)}
        texts = np.array([frequency[word] for word in self.words])
        self._idf = np.log(len(counts) / np.maximum(texts, 1))

    def features(self, counts):
        """Returns the features of a text, sorted, and their weights.

        Args:
          counts: the `word_counts` of the text.
        """
        known = {self._ids[w]: n for w, n in counts.items() if w in self._ids}
        ids = np.array(sorted(known), np.int64)
        values = 1 + np.log([known[i] for i in ids])
        values = values * self._idf[ids]
        length = np.linalg.norm(values)
        return ids, values / length if length else values
