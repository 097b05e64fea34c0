"""Spellings for words that are numbers, and fast text of them.

A spelling alternates consonants and vowels, so that it can be read aloud. No
two words have the same, and the frequent ones have the shorter.
"""

import numpy as np

MAX_LETTERS = 7  # with the space, a word is one integer of 64 bits
_CONSONANTS = np.frombuffer(b"bcdfghjklmnpqrstvwxz", np.uint8)
_VOWELS = np.frombuffer(b"aeiouy", np.uint8)
# Letters more for a word whose rank is e times as large.
_SLOPE = 0.4
_GOLDEN_RATIO = 0.6180339887498949


class Spellings:
    """The spellings of V words, each with a space behind it.

    Attributes:
        sizes: `[V]` uint8, letters of each word and one.
    """

    def __init__(self, num_words, letters):
        """Spells the words of rank 0 to `num_words` - 1.

        Args:
            num_words: V, at most some 10 million.
            letters: about those of the most frequent word. One letter more
                makes all words of a text one letter longer, as far as there are
                enough short spellings.
        """
        lengths = _lengths(num_words, letters)
        self._spellings = np.zeros((num_words, MAX_LETTERS + 1), np.uint8)
        for length in range(1, MAX_LETTERS + 1):
            ranks = np.flatnonzero(lengths == length)
            self._spellings[ranks, :length] = _spell(ranks.size, length)
        self.sizes = lengths + np.uint8(1)
        self._spellings[np.arange(num_words), lengths] = ord(" ")

    def write(self, ranks, ends):
        """Returns the text of words, and where each stops.

        Args:
            ranks: `[N]`, from 0.
            ends: `[N]` bool, whether a line end follows instead of a space.

        Returns:
            The text, uint8, and the `[N]` sums of the sizes up to each word.
        """
        whole = self._spellings.view(np.uint64)[ranks, 0].view(np.uint8)
        text = whole[whole != 0]
        stops = np.cumsum(self.sizes[ranks], dtype=np.int64)
        text[stops[ends] - 1] = ord("\n")
        return text, stops

    def __getitem__(self, rank):
        """The spelling of the word of one rank, from 0."""
        size = int(self.sizes[rank])
        return bytes(self._spellings[rank, : size - 1]).decode()


def _lengths(num_words, letters):
    """Letters of each word, `[V]` uint8."""
    ranks = np.arange(num_words)
    wanted = letters + _SLOPE * np.log1p(ranks)
    # Between two whole numbers, every word has its own share of chance.
    wanted += ranks * _GOLDEN_RATIO % 1
    lengths = np.clip(wanted, 1, MAX_LETTERS).astype(np.uint8)
    for length in range(1, MAX_LETTERS):
        # Those that find no spelling left are longer.
        lengths[np.flatnonzero(lengths == length)[_capacity(length) :]] += 1
    return lengths


def _alphabets(length, vowel_first):
    """The letters for each place."""
    kinds = (_CONSONANTS, _VOWELS)
    return [kinds[(place + vowel_first) % 2] for place in range(length)]


def _capacity(length):
    return sum(
        int(np.prod([letters.size for letters in _alphabets(length, first)]))
        for first in (False, True)
    )


def _spell(count, length):
    """Returns `[count, length]` letters: `count` different words."""
    total = _capacity(length)
    # Steps of a size that has no divisor in common with the total meet every
    # spelling once, far apart.
    numbers = np.arange(count, dtype=np.int64) * 7_368_787 % total
    result = np.empty((count, length), np.uint8)
    begin = 0
    for first in (False, True):
        alphabets = _alphabets(length, first)
        size = int(np.prod([letters.size for letters in alphabets]))
        chosen = np.flatnonzero((numbers >= begin) & (numbers < begin + size))
        rest = numbers[chosen] - begin
        for place, letters in enumerate(alphabets):
            rest, digit = np.divmod(rest, letters.size)
            result[chosen, place] = letters[digit]
        begin += size
    return result
