"""Text to class ids: reading, the vocabulary and the split.

A corpus is a list of documents. One document in `HELD_OUT_EVERY` is held out
as a whole, chosen by a hash of its name, so that the choice does not change
from run to run and no document is in both parts. Documents that resemble each
other can be: nothing is de-duplicated. Only training documents make the
vocabulary and the unigram counts.
"""

import collections
import dataclasses
import hashlib
import itertools

import numpy as np

from examples.corpora import documents, tokenizer

UNKNOWN = "<unk>"
END = "<eof>"
HELD_OUT_EVERY = 20

_BLOCKS = 100


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Encoded text.

    Attributes:
        words: the class names, most frequent first; class 0 to N - 1.
        counts: `[N]` int64, occurrences of each class in `train`.
        train: `[num_train_tokens]` int32 class ids.
        held_out: `[num_held_out_tokens]` int32 class ids.
        unknown: the class of `<unk>`.
        digest: hexadecimal, equal for equal text, split and vocabulary.
    """

    words: tuple[str, ...]
    counts: np.ndarray
    train: np.ndarray
    held_out: np.ndarray
    unknown: int
    digest: str

    @property
    def unknown_rates(self):
        """Shares of `<unk>` among training and among held-out tokens."""
        return tuple(
            float(np.mean(ids == self.unknown))
            for ids in (self.train, self.held_out)
        )

    def unigram_perplexity(self, labels):
        """Perplexity of the training frequencies, one added to each count.

        Args:
            labels: class ids of any shape, `<unk>` among them: the model is
                judged on the same tokens with the same `<unk>`.
        """
        smoothed = self.counts + 1.0
        log_probs = np.log(smoothed / smoothed.sum())
        return float(np.exp(-log_probs[labels].mean()))


def load(source, min_count, encoding="utf-8"):
    """Reads, splits and encodes a corpus.

    Words seen fewer than `min_count` times in the training documents become
    `<unk>` there, and so do the held-out words that are no class. With 2, the
    smallest choice, a word seen once stands for the words never seen: the
    model learns where an unknown word is likely from the text it has.

    Args:
        source: "stdlib", "stdlib+tests", or the path of a file or folder.
        min_count: at least 2.
        encoding: of the files; a codec of Python.

    Raises:
        FileNotFoundError: no such file or folder.
        ValueError: a file is no text in that encoding, there is too little
            text, or it has no rare word.
    """
    texts = documents.read(source, encoding)
    if len(texts) < HELD_OUT_EVERY:
        texts = _blocks("\n".join(texts.values()))
    held_names = _held_out_names(list(texts))
    train, held_out = [], []
    for name, text in texts.items():
        part = held_out if name in held_names else train
        part.extend(tokenizer.split(text))
        part.append(END)
    if not held_out:
        raise ValueError(f"--corpus={source} has no text.")
    return _encode(train, held_out, min_count)


def _blocks(text):
    """Cuts text into blocks of whole lines, which then are the documents."""
    lines = text.splitlines(keepends=True)
    bounds = np.linspace(0, len(lines), _BLOCKS + 1).astype(int)
    return {
        f"block {i}": "".join(lines[begin:end])
        for i, (begin, end) in enumerate(itertools.pairwise(bounds))
        if begin < end
    }


def _held_out_names(names):
    names = sorted(names, key=lambda n: hashlib.sha256(n.encode()).digest())
    return set(names[::HELD_OUT_EVERY])


def _encode(train, held_out, min_count):
    counts = collections.Counter(train)
    kept = {word: n for word, n in counts.items() if n >= min_count}
    kept[UNKNOWN] = len(train) - sum(kept.values())
    if not kept[UNKNOWN]:
        raise ValueError(
            f"No word of the training text is seen fewer than {min_count} "
            "times, so that <unk> would never be trained: give more text or a "
            "larger --min_count."
        )
    words = tuple(sorted(kept, key=lambda word: (-kept[word], word)))
    class_of = {word: i for i, word in enumerate(words)}
    unknown = class_of[UNKNOWN]
    train_ids, held_out_ids = (
        np.fromiter((class_of.get(w, unknown) for w in part), np.int32)
        for part in (train, held_out)
    )
    digest = hashlib.sha256("\0".join(words).encode())
    digest.update(train_ids.tobytes())
    digest.update(held_out_ids.tobytes())
    return Corpus(
        words=words,
        counts=np.array([kept[word] for word in words], np.int64),
        train=train_ids,
        held_out=held_out_ids,
        unknown=unknown,
        digest=digest.hexdigest(),
    )
