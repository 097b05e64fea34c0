"""Words as bags of themselves and of their character n-grams, as in fastText.

Bojanowski et al., 2017: Enriching Word Vectors with Subword Information.
"""

import array
import dataclasses

import numpy as np

_FNV_OFFSET, _FNV_PRIME = 2_166_136_261, 16_777_619
# fastText hashes chars, which are signed: a byte above 127 is extended.
_EXTENDED = [b | 0xFFFFFF00 if b > 127 else b for b in range(256)]


def buckets(word, min_n, max_n, num_buckets):
    """The buckets of the n-grams of `<word>`, as fastText has them.

    The borders alone are no n-grams. What occurs twice is there twice.

    Args:
        word: a string.
        min_n: characters of the shortest n-grams.
        max_n: characters of the longest.
        num_buckets: among which the n-grams are hashed, by FNV-1a over their
            UTF-8 bytes.

    Returns:
        A list of integers in `[0, num_buckets)`.
    """
    characters = [c.encode() for c in f"<{word}>"]
    last = len(characters) - 1
    found = []
    for begin in range(len(characters)):
        value = _FNV_OFFSET
        for n, character in enumerate(characters[begin : begin + max_n], 1):
            for byte in character:
                value = (value ^ _EXTENDED[byte]) * _FNV_PRIME & 0xFFFFFFFF
            is_border = n == 1 and begin in (0, last)
            if n >= min_n and not is_border:
                found.append(value % num_buckets)
    return found


@dataclasses.dataclass(frozen=True)
class Bags:
    """Which rows of a table make up each word: its own, then its n-grams'.

    Row i is that of word i. The buckets that no word has need no rows.

    Attributes:
        rows: `[n]` int32; word i has `rows[splits[i]:splits[i + 1]]`.
        splits: `[N + 1]` int64.
        buckets: `[R]`, sorted; bucket i has row N + i.
    """

    rows: np.ndarray
    splits: np.ndarray
    buckets: np.ndarray

    @property
    def num_rows(self):
        """The rows of the table: N + R."""
        return len(self.splits) - 1 + len(self.buckets)


def bags(words, settings):
    """The `Bags` of all words; None if the settings ask for no n-grams."""
    if not settings.max_n:
        return None
    found = array.array("q")
    ends = [0]
    for word in words:
        found.extend(
            buckets(word, settings.min_n, settings.max_n, settings.buckets)
        )
        ends.append(len(found))
    used, places = np.unique(np.array(found), return_inverse=True)
    own = np.arange(len(words))
    rows = np.insert(len(words) + places, ends[:-1], own)
    return Bags(
        rows=rows.astype(np.int32),
        splits=np.array(ends) + np.arange(len(ends)),
        buckets=used,
    )
