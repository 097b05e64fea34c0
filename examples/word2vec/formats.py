"""The binary file of word vectors that word2vec writes.

It begins with a line "N width". Then each word follows, in UTF-8, with a space,
its numbers as float32, the lowest byte first, and a line break. The most
frequent word is the first. gensim reads the file by
`KeyedVectors.load_word2vec_format(path, binary=True)`.
"""

from examples.common import files

FILE = "vectors.bin"


def write(path, words, vectors):
    """Writes vectors of words, atomically.

    Args:
        path: The path of the file.
        words: `[N]` strings without white space.
        vectors: `[N, width]` float32.
    """
    with files.atomic(path) as name, open(name, "wb") as file:
        file.write(b"%d %d\n" % vectors.shape)
        for word, vector in zip(words, vectors.astype("<f4"), strict=True):
            file.write(b"%s %s\n" % (word.encode(), vector.tobytes()))
