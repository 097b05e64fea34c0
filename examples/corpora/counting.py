"""The first pass: how often each token occurs, in bounded memory."""

import collections
import pathlib
import pickle

from examples.corpora import reading

_MOST_TOKENS = 5_000_000  # some 0.7 GB
_PARTS = 64


def start(rules):
    """Makes what `count` needs, once in each process."""
    global _reader
    _reader = reading.Reader(rules)


def count(chunk):
    """Returns how many tokens the spans have, and a `Counter` of them.

    Raises `reading.NotTextError`.
    """
    counts = collections.Counter()
    for span in chunk:
        counts.update(_reader.tokens(span))
    return counts.total(), counts


class Tally:
    """A sum of counters; what does not fit in memory waits on the disk.

    Nothing is pruned: the sums are exact.
    """

    def __init__(self, folder, most_tokens=_MOST_TOKENS):
        """Begins with nothing.

        Args:
            folder: for its files.
            most_tokens: different tokens in memory.
        """
        self._folder = pathlib.Path(folder)
        self._most = most_tokens
        self._counts = collections.Counter()
        self._num_written = 0

    def add(self, counts):
        """Adds a `Counter`."""
        self._counts.update(counts)
        if len(self._counts) > self._most:
            self._write()

    def _write(self):
        """Moves the counts to files, of which each has some of the tokens."""
        parts = [{} for _ in range(_PARTS)]
        for token, n in self._counts.items():
            # Equal for equal tokens within this process, which is enough.
            parts[hash(token) % _PARTS][token] = n
        for i, part in enumerate(parts):
            with open(self._folder / f"counts{i}", "ab") as file:
                pickle.dump(part, file)
        self._num_written += 1
        self._counts = collections.Counter()

    def counts(self, is_kept):
        """Returns the counts of the tokens that are kept, a dict.

        Args:
            is_kept: of a token and its count.
        """
        if not self._num_written:
            return _kept(self._counts, is_kept)
        self._write()
        result = {}
        for i in range(_PARTS):
            path = self._folder / f"counts{i}"
            counts = collections.Counter()
            with open(path, "rb") as file:
                for _ in range(self._num_written):
                    counts.update(pickle.load(file))
            path.unlink()
            result |= _kept(counts, is_kept)
        self._num_written = 0
        return result


def _kept(counts, is_kept):
    return {token: n for token, n in counts.items() if is_kept(token, n)}
