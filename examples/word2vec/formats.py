"""Files of word vectors that other programs read.

word2vec's two formats begin with a line "N width". A word's line is then, in
the text format, the word and its numbers; in the binary one the word, a space,
its numbers as float32, the lowest byte first, and a line break. The words are
UTF-8, most frequent first.
"""

import itertools
import mmap
import os

import numpy as np

from examples.common import files

# The file for each format.
FILES = {
    "binary": "vectors.bin",
    "text": "vectors.txt",
    "gensim": "vectors.kv",
}
_LONGEST_WORD = 1000  # bytes
_MARK = b"\xef\xbb\xbf"


def check(kinds):
    """Raises `ValueError` if one is no format, or cannot be written here."""
    for kind in kinds:
        if kind not in FILES:
            raise ValueError(
                f"--formats={kind}: must be among {', '.join(FILES)}."
            )
    if "gensim" in kinds:
        try:
            import gensim  # noqa: F401
        except ImportError as error:
            raise ValueError(
                "--formats=gensim needs gensim: pip install gensim; or take "
                "--formats=binary, which gensim reads too."
            ) from error


def write(kind, path, words, counts, blocks):
    """Writes vectors of words, atomically.

    Args:
        kind: a key of `FILES`.
        path: of the file.
        words: `[N]` strings without white space.
        counts: `[N]`, how often each occurs; in gensim's format only.
        blocks: an iterable of arrays `[some, width]` float32, the vectors of
            all words in their order.
    """
    first, blocks = _peek(blocks)
    with files.atomic(path) as name:
        if kind == "gensim":
            _write_gensim(name, words, counts, np.concatenate(list(blocks)))
            return
        row = _text_row if kind == "text" else _binary_row
        with open(name, "wb") as file:
            file.write(f"{len(words)} {first.shape[1]}\n".encode())
            vectors = itertools.chain.from_iterable(blocks)
            for word, vector in zip(words, vectors, strict=True):
                file.write(row(word, vector))


def _peek(blocks):
    blocks = iter(blocks)
    first = next(blocks)
    return first, itertools.chain([first], blocks)


def _text_row(word, vector):
    # Nine digits are enough for each float32 to be read as it was.
    numbers = " ".join(["%.9g"] * len(vector)) % tuple(vector)
    return f"{word} {numbers}\n".encode()


def _binary_row(word, vector):
    return b"%s %s\n" % (word.encode(), vector.astype("<f4").tobytes())


def _write_gensim(name, words, counts, vectors):
    from gensim import models

    keyed = models.KeyedVectors(vectors.shape[1], count=0)
    keyed.add_vectors(list(words), vectors)
    for word, count in zip(words, counts, strict=True):
        keyed.set_vecattr(word, "count", int(count))
    # All in one file, which has its name at once.
    keyed.save(str(name), separately=[])


def read(path, limit=None):
    """Reads a file of either format of word2vec; its beginning tells which.

    Args:
        path: of the file.
        limit: the most words that are read; the first ones.

    Returns:
        The words `[N]`, and their vectors `[N, width]` float32.

    Raises:
        OSError: there is no such file.
        ValueError: it is in another format, or damaged.
    """
    with open(path, "rb") as file:
        header = file.readline(100)
        if header.startswith(b"\x1f\x8b"):
            raise ValueError(f"{path} is compressed by gzip: unpack it first.")
        try:
            # Editors put a byte-order mark before a text.
            count, width = map(int, header.removeprefix(_MARK).split())
            size = os.fstat(file.fileno()).st_size
            if min(count, width) < 1 or count * width > size:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"{path} is no file of word vectors: it must begin with a "
                'line of two numbers, "N width", and hold as many.'
            ) from None
        if _is_text(file.readline(_LONGEST_WORD + 40 * width), width):
            file.seek(len(header))
            rows = _text_rows(file, width)
        else:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            rows = _binary_rows(data, len(header), width)
        count = min(count, limit or count)
        words, vectors = [], np.empty([count, width], np.float32)
        for i in range(count):
            try:
                word, vectors[i] = next(rows)
            except (StopIteration, ValueError) as error:
                raise ValueError(
                    f"{path} is damaged: there is no word {i + 1:,} of "
                    f"{count:,} with {width} numbers."
                ) from error
            words.append(word)
    return tuple(words), vectors


def _is_text(line, width):
    try:
        _parse(line, width)
    except ValueError:
        return False
    return True


def _text_rows(file, width):
    for line in file:
        yield _parse(line, width)


def _parse(line, width):
    """A word and its numbers; `ValueError` if these are others than `width`."""
    word, *numbers = line.decode().rstrip(" \n").split(" ")
    if len(numbers) != width:
        raise ValueError
    return word, np.array(numbers, np.float32)


def _binary_rows(data, begin, width):
    while (end := data.find(b" ", begin)) >= 0:
        word = data[begin:end].removeprefix(b"\n")  # There may be none.
        begin = end + 1 + 4 * width
        if begin > len(data):
            return
        yield word.decode(), np.frombuffer(data[end + 1 : begin], "<f4")
