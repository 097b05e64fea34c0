"""The file of word vectors, and their neighbours."""

import re
import struct

import numpy as np
import pytest

from examples.word2vec import vectors as vectors_lib

WORDS = ("the", "Ünï", "0.5", "x", "日本")


@pytest.fixture
def vectors():
    """`[5, 3]`, with numbers that few digits do not tell apart."""
    values = np.random.default_rng(0).normal(size=(len(WORDS), 3))
    values[1] = 1e-30, -np.nextafter(np.float32(1), 2), 1 / 3
    return values.astype(np.float32)


def test_the_format_is_word2vecs(vectors, tmp_path):
    path = tmp_path / "vectors.bin"
    vectors_lib.write(path, WORDS, vectors)
    # What word2vec.c's fprintf("%s ") and fwrite(float) write.
    expected = b"5 3\n"
    for word, vector in zip(WORDS, vectors, strict=True):
        expected += word.encode() + b" " + struct.pack("<3f", *vector) + b"\n"
    assert path.read_bytes() == expected


def test_gensim_reads_it(vectors, tmp_path):
    models = pytest.importorskip("gensim.models")
    path = tmp_path / "vectors.bin"
    vectors_lib.write(path, WORDS, vectors)
    found = models.KeyedVectors.load_word2vec_format(path, binary=True)
    assert tuple(found.index_to_key) == WORDS
    np.testing.assert_array_equal(found.vectors, vectors)


def test_neighbours_against_cosines():
    rng = np.random.default_rng(0)
    names = [f"w{i}" for i in range(40)]
    vectors = rng.normal(size=[40, 4]).astype(np.float32)
    unit = vectors.astype(np.float64)
    unit /= np.sqrt((unit**2).sum(1, keepdims=True))
    cosines = unit @ unit[3]
    order = [i for i in np.argsort(-cosines) if i != 3]
    expected = "  ".join(f"w{i} {cosines[i]:.2f}" for i in order[:5])
    shown = vectors_lib.table(names, vectors, ["w3", "nowhere"], 5)
    assert shown.splitlines() == [
        f"  w3       {expected}",
        "  nowhere  (not among these 40 words)",
    ]
    # No word is its own neighbour.
    everything = vectors_lib.table(names, vectors, ["w3"], 99)
    assert len(re.findall(r"w\d+ ", everything.partition("w3 ")[2])) == 39
