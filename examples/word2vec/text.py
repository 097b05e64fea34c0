"""The words of a corpus, as word2vec sees it."""

import dataclasses

import numpy as np

from examples.corpora import corpus

_SENTENCE_END = "</s>"  # in texts of word2vec, which is no word
_NO_WORD, _END = -1, -2


@dataclasses.dataclass(frozen=True)
class Text:
    """A text of words: rare ones, white space and ends are left out of it.

    Attributes:
        words: the words, most frequent first; word 0 to N - 1.
        counts: `[N]` int64, how often each occurs.
        classes: `[n]` int32, the tokens of the corpus.
        word_of_class: int32, the word of each class of the corpus; below 0 for
            a class that is none.
    """

    words: tuple[str, ...]
    counts: np.ndarray
    classes: np.ndarray
    word_of_class: np.ndarray

    def __len__(self):
        """The number of tokens, with those that are no words."""
        return len(self.classes)

    def read(self, begin, end):
        """Returns the words among the tokens from `begin` to `end`, `[m]`.

        And numbers `[m]` that are equal for words of the same sentence.
        """
        words = self.word_of_class[self.classes[begin:end]]
        sentences = np.cumsum(words == _END, dtype=np.int32)
        is_word = words >= 0
        return words[is_word], sentences[is_word]


def load(settings):
    """Reads the `Text` to train on: the training part of a `corpus.Corpus`.

    Raises:
        OSError: the corpus cannot be read.
        ValueError: it is no text, or has too few words.
    """
    loaded = corpus.load(settings, trains_unknown=False)
    word_of_class = np.full(len(loaded.words), _NO_WORD, np.int32)
    words = []
    for c, name in enumerate(loaded.words):
        is_break = settings.sentences == "line" and name.startswith("\n")
        if is_break or name in (loaded.boundary, _SENTENCE_END):
            word_of_class[c] = _END
        elif c != loaded.unknown and name.split() == [name]:
            word_of_class[c] = len(words)
            words.append(name)
    if len(words) < 2:
        raise ValueError(
            f"--corpus={settings.corpus} has {len(words)} words that occur "
            f"{settings.min_count} times: give more text or a smaller "
            "--min_count."
        )
    return Text(
        words=tuple(words),
        counts=loaded.counts[word_of_class >= 0],
        classes=loaded.train,
        word_of_class=word_of_class,
    )
