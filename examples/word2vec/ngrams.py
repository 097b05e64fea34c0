"""The n-grams' vectors, which tell the vectors of words without one."""

import dataclasses
import zipfile

import numpy as np

from examples.common import files
from examples.word2vec import subwords

FILE = "ngrams.npz"
_DAMAGED = (EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile)


@dataclasses.dataclass(frozen=True)
class Ngrams:
    """The vectors of those n-grams that words of the text have.

    Attributes:
        min_n, max_n, num_buckets: as for `subwords.buckets`.
        buckets: `[R]`, sorted.
        vectors: `[R, width]` float32, of these.
    """

    min_n: int
    max_n: int
    num_buckets: int
    buckets: np.ndarray
    vectors: np.ndarray

    def vector(self, word):
        """The mean `[width]` of a word's n-grams; None if none is known."""
        asked = np.array(
            subwords.buckets(word, self.min_n, self.max_n, self.num_buckets)
        )
        asked = asked[np.isin(asked, self.buckets)]
        if not len(asked):
            return None
        return self.vectors[np.searchsorted(self.buckets, asked)].mean(0)


def write(path, ngrams):
    """Writes `Ngrams` as arrays of NumPy, atomically."""
    with files.atomic(path) as name:
        np.savez(name, **vars(ngrams))


def read(path):
    """Reads `Ngrams`.

    Raises:
        OSError: there is no such file.
        ValueError: it is of another program, or damaged.
    """
    try:
        with np.load(path) as file:
            arrays = {f.name: file[f.name] for f in dataclasses.fields(Ngrams)}
    except _DAMAGED as error:
        raise ValueError(
            f"{path} holds no n-grams that this program has written, or is "
            "damaged."
        ) from error
    return Ngrams(**{k: a if a.ndim else a.item() for k, a in arrays.items()})
