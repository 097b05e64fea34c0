"""Which files are text, and how documents are divided."""

import bz2
import gzip
import lzma
import os
import pathlib
import sys

import numpy as np
import pytest

from examples.corpora import corpus, texts

SENTENCES = "\n".join(f"line {i} is one of many, über" for i in range(500))
RUSSIAN = "\n".join(f"это строка {i}" for i in range(500))


@pytest.fixture
def load():
    """A function from a path and options to a `Corpus`."""

    def load(path, **options):
        return corpus.load(corpus.Options(str(path), **options))

    return load


def test_bad_corpora_are_named(tmp_path, load):
    with pytest.raises(FileNotFoundError, match="there are no such files"):
        load(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match="there are no such files"):
        load(tmp_path / "*.txt")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileNotFoundError, match="there are no such files"):
        load(tmp_path / "folder")
    path = tmp_path / "text"
    for text, message in (
        ("a b\n" * 500, "never be trained"),
        ("", "has no text"),
        (" \n\t", "has too little text"),
        ("word", "has too little text: the part"),
    ):
        path.write_text(text)
        options = {"tokens": "words"} if text.isspace() else {}
        with pytest.raises(ValueError, match=message):
            load(path, **options)


def test_hidden_files_are_no_documents(tmp_path, load):
    folder = tmp_path / "texts"
    folder.mkdir()
    for i in range(40):
        (folder / f"{i}.txt").write_text(f"common only{i} only{i} once{i}")
    loaded = load(folder)
    (folder / ".git").mkdir()
    (folder / ".git" / "object").write_bytes(b"\0\xff")
    (folder / ".DS_Store").write_bytes(b"\0\xff")
    assert load(folder).digest == loaded.digest


def test_unigram_perplexity_of_equal_counts_is_their_number():
    loaded = corpus.Corpus(
        words=("a", "b", "c", "<unk>"),
        counts=np.full(4, 9),
        train=np.zeros(36, np.int32),
        valid=np.zeros(1, np.int32),
        test=np.zeros(1, np.int32),
        unknown=3,
        digest="",
    )
    labels = np.array([[0, 3], [1, 2]])
    assert loaded.unigram_perplexity(labels) == pytest.approx(4)


@pytest.mark.parametrize(
    ("data", "message"),
    (
        (pathlib.Path(sys.executable).read_bytes(), "is no utf-8 text"),
        (SENTENCES.encode("utf-16"), "is no utf-8 text"),
        ("text\n".encode("utf-16-le") * 9, "it has NUL characters"),
        (b"cut in a character \xc3", "unexpected end of data"),
    ),
)
@pytest.mark.parametrize("pack", (bytes, gzip.compress))
def test_what_is_no_text_is_refused(tmp_path, load, data, message, pack):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "corpus"
    path.write_bytes(pack(data))
    for corpus_path in path, folder:
        with pytest.raises(ValueError, match=message) as error:
            load(corpus_path)
        assert str(error.value).startswith(f"{path} is no utf-8 text: ")
        assert "--encoding names another" in str(error.value)


def test_encodings(tmp_path, load):
    path = tmp_path / "corpus"
    path.write_text(RUSSIAN, encoding="utf-8")
    digest = load(path).digest
    for encoding in ("cp1251", "utf-16", "koi8-r", "utf-8-sig"):
        path.write_text(RUSSIAN, encoding=encoding)
        assert load(path, encoding=encoding).digest == digest, encoding
    # A byte-order mark is no word, nor are line ends of other systems.
    for text in (f"\ufeff{RUSSIAN}", RUSSIAN.replace("\n", "\r\n")):
        path.write_bytes(text.encode())
        words = load(path).words
        assert not any("\r" in word or "\ufeff" in word for word in words)
    with pytest.raises(ValueError, match=r"is no ascii text: .* byte 0xd1"):
        load(path, encoding="ascii")


@pytest.mark.parametrize(
    "pack", (gzip.compress, bz2.compress, lzma.compress, "twice")
)
def test_packed_files_are_the_text(tmp_path, load, pack):
    path = tmp_path / "corpus"
    path.write_text(SENTENCES)
    digest = load(path).digest
    data = SENTENCES.encode()
    if pack == "twice":
        # Members one after the other, as `cat` makes them.
        path.write_bytes(
            gzip.compress(data[:5000]) + gzip.compress(data[5000:])
        )
    else:
        path.write_bytes(pack(data))
    loaded = load(path)
    assert loaded.digest == digest


def test_damaged_packs_are_named(tmp_path, load):
    path = tmp_path / "corpus"
    for pack in gzip.compress, bz2.compress, lzma.compress:
        data = bytearray(pack(SENTENCES.encode()))
        path.write_bytes(data[:-20])
        with pytest.raises(ValueError, match=f"^{path} is damaged: .*"):
            load(path)
        data[len(data) // 2] ^= 255
        path.write_bytes(data)
        with pytest.raises(ValueError, match=f"^{path} is "):
            load(path)


def test_patterns(tmp_path, load):
    folder = tmp_path / "some" / "deep"
    folder.mkdir(parents=True)
    for name in "one", "two":
        (folder / f"{name}.txt").write_text(f"{SENTENCES} {name}")
    (folder / "three.md").write_text("not read")
    loaded = load(tmp_path / "some" / "**" / "*.txt")
    assert "line" in loaded.words and "read" not in loaded.words


def test_the_standard_library():
    found = texts.find("stdlib")
    assert found["os.py"] == os.__file__
    assert not any(name.startswith("test/") for name in found)


def test_names_of_encodings():
    assert corpus.Options(encoding="UTF8") == corpus.Options()
    assert corpus.Options(encoding="windows-1251").encoding == "cp1251"
    for name in ("klingon", "zlib", "rot13", "", "a\0b"):
        message = f"--encoding={name}: Python knows no"
        with pytest.raises(ValueError, match=message):
            corpus.Options(encoding=name)
