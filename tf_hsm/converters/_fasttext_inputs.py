"""Input vectors of fastText for a word and for a line of text.

A word is the mean of its own row of the input matrix and of the rows to which
its character n-grams are hashed (Bojanowski et al., 2017: Enriching Word
Vectors with Subword Information). A line is the mean of all rows of its words
and of the vectors of its word n-grams (Joulin et al., 2017: Bag of Tricks for
Efficient Text Classification).
"""

import re

import numpy as np

END_OF_LINE = b"</s>"
_LABEL_PREFIX = b"__label__"
_SEPARATORS = re.compile(rb"[ \r\t\v\f\0]+")
# FNV-1a; fastText takes bytes as signed.
_HASH_START = 2_166_136_261
_HASH_FACTOR = 16_777_619
_WORD_HASH_FACTOR = 116_049_371
# Characters whose n-grams are made side by side.
_BLOCK = 65_536


def word_vectors(contents):
    """Returns the vector of each word of the dictionary, `[words, D]`."""
    texts, inputs = contents.words.texts, contents.inputs
    vectors = inputs[: len(texts)].copy()
    num_rows = np.ones([len(texts), 1], np.float32)
    numbers = np.array(
        [number for number, text in enumerate(texts) if text != END_OF_LINE],
        np.int64,
    )
    for owners, rows in _subword_rows(
        [texts[number] for number in numbers], contents.settings
    ):
        (starts,) = np.nonzero(np.diff(owners, prepend=-1))
        words = numbers[owners[starts]]
        vectors[words] += np.add.reduceat(inputs[len(texts) + rows], starts)
        num_rows[words, 0] += np.diff(starts, append=owners.size)
    return vectors / num_rows


class LineVectors:
    """Computes the input vectors of lines as a supervised model does."""

    def __init__(self, contents):
        """Keeps the input matrix."""
        self._settings = contents.settings
        self._inputs = contents.inputs
        self._num_words = len(contents.words.texts)
        self._rows = {t: row for row, t in enumerate(contents.words.texts)}
        self._labels = set(contents.labels.texts)

    def __call__(self, line):
        """Returns `[D]`, the vector of one line; zero if no row is known.

        Raises:
          TypeError: `line` is not a str.
          ValueError: it is more than one line.
        """
        if not isinstance(line, str):
            raise TypeError(f"line must be a str, not {type(line).__name__}")
        if "\n" in line:
            raise ValueError(
                f"line has an end of line at {line.index(chr(10))}; it must be "
                "one line, without its end"
            )
        rows = self._line_rows(line)
        if not rows:
            return np.zeros(self._settings.dim, np.float32)
        return self._inputs[rows].mean(axis=0)

    def _line_rows(self, line):
        rows, hashes = [], []
        for token in _tokens(line):
            row = self._rows.get(token)
            if row is None and self._is_label(token):
                continue
            if row is not None:
                rows.append(row)
            if token != END_OF_LINE:
                for _, below in _subword_rows([token], self._settings):
                    rows.extend(self._num_words + below)
            hashes.append(_hash(token))
        rows.extend(self._num_words + row for row in self._ngram_rows(hashes))
        return rows

    def _is_label(self, token):
        return token in self._labels or token.startswith(_LABEL_PREFIX)

    def _ngram_rows(self, hashes):
        for first in range(len(hashes)):
            combined = hashes[first]
            for word in hashes[first + 1 : first + self._settings.word_ngrams]:
                combined = (combined * _WORD_HASH_FACTOR + word) % 2**64
                yield combined % self._settings.bucket


def _tokens(line):
    """Returns the tokens of a line up to its end, which is one too."""
    text = line.encode("utf-8", "surrogateescape")
    tokens = [token for token in _SEPARATORS.split(text) if token]
    tokens.append(END_OF_LINE)
    return tokens[: tokens.index(END_OF_LINE) + 1]


def _hash(text):
    """Returns the hash of a word, an int32 as fastText keeps it."""
    value = _HASH_START
    for byte in np.frombuffer(text, np.int8).tolist():
        value = (value ^ byte) * _HASH_FACTOR % 2**32
    return value - 2**32 * (value >= 2**31)


def _subword_rows(texts, settings):
    """Yields the character n-grams of each `<text>`, block after block.

    Yields:
      The text of each n-gram, ascending within a block, and the row that it is
      hashed to, counted from behind the rows of the words; both `[n]`.
    """
    data = np.frombuffer(b"".join(b"<%b>" % text for text in texts), np.int8)
    lengths = np.array([len(text) + 2 for text in texts], np.int64)
    ends = np.cumsum(lengths)
    # A character is a byte and the continuation bytes of UTF-8 behind it.
    (starts,) = np.nonzero(data.view(np.uint8) & 0xC0 != 0x80)
    # Character i has the bytes from entry i up to entry i + 1. The last entry
    # is past the end of every text.
    bounds = np.append(starts, [data.size, data.size + 1])
    for begin in range(0, starts.size, _BLOCK):
        first = np.arange(begin, min(begin + _BLOCK, starts.size))
        owners = np.searchsorted(ends, starts[first], side="right")
        hashes = np.full(first.size, _HASH_START, np.uint32)
        for length in range(1, settings.maxn + 1):
            inside = bounds[first + length] <= ends[owners]
            first, owners, hashes = (
                array[inside] for array in (first, owners, hashes)
            )
            if not first.size:
                break
            last = first + length - 1
            _extend(hashes, data, bounds[last], bounds[last + 1])
            if length < settings.minn:
                continue
            kept = slice(None)
            if length == 1:
                # The marks of the two ends alone are no n-grams.
                is_first = starts[first] == (ends - lengths)[owners]
                is_last = bounds[last + 1] == ends[owners]
                kept = ~(is_first | is_last)
            yield owners[kept], hashes[kept] % np.uint32(settings.bucket)


def _extend(hashes, data, starts, ends):
    """Adds the bytes from each start to each end to hashes, in place."""
    (left,) = np.nonzero(starts < ends)
    offset = 0
    while left.size:
        hashes[left] ^= data[starts[left] + offset].astype(np.uint32)
        hashes[left] *= np.uint32(_HASH_FACTOR)
        offset += 1
        left = left[starts[left] + offset < ends[left]]
