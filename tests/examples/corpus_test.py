"""From files to class ids, and back to text: no model, no TensorFlow."""

import bz2
import gzip
import keyword
import lzma
import pathlib
import random
import re
import sys

import numpy as np
import pytest

from examples.corpora import corpus, tokenizer
from examples.language_model import batches
from examples.language_model.settings import Settings

SENTENCES = "\n".join(f"line {i} is one of many, über" for i in range(500))
RUSSIAN = "\n".join(f"это строка {i}" for i in range(500))


def test_bad_corpora_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        corpus.load(str(tmp_path / "missing"), 2)
    (tmp_path / "even.txt").write_text("a b\n" * 500)
    with pytest.raises(ValueError, match="never be trained"):
        corpus.load(str(tmp_path / "even.txt"), 2)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ValueError, match="has no text"):
        corpus.load(str(tmp_path / "empty.txt"), 2)


def test_documents_are_held_out_whole(tmp_path):
    for i in range(40):
        (tmp_path / f"{i}.txt").write_text(f"common only{i} only{i} once{i}")
    loaded = corpus.load(str(tmp_path), 2)
    held_out = [loaded.words[c] for c in loaded.held_out]
    # A held-out document's own words are no class.
    assert held_out == ["common", "<unk>", "<unk>", "<unk>", "<eof>"] * 2
    assert loaded.counts.tolist() == np.bincount(loaded.train).tolist()
    assert list(loaded.counts) == sorted(loaded.counts, reverse=True)
    assert loaded.digest == corpus.load(str(tmp_path), 2).digest
    # Hidden files are no documents, whatever they are.
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "object").write_bytes(b"\0\xff")
    (tmp_path / ".DS_Store").write_bytes(b"\0\xff")
    assert loaded.digest == corpus.load(str(tmp_path), 2).digest


def test_unigram_perplexity_of_equal_counts_is_their_number():
    loaded = corpus.Corpus(
        words=("a", "b", "c", "<unk>"),
        counts=np.full(4, 9),
        train=np.zeros(36, np.int32),
        held_out=np.zeros(1, np.int32),
        unknown=3,
        digest="",
    )
    labels = np.array([[0, 3], [1, 2]])
    assert loaded.unigram_perplexity(labels) == pytest.approx(4)


def test_windows_continue_each_other_and_labels_are_the_next_token():
    tokens, labels = batches.windows(np.arange(50), 3, 4, "text")
    assert tokens.shape == labels.shape == (4, 3, 4)
    np.testing.assert_array_equal(labels, tokens + 1)
    np.testing.assert_array_equal(tokens[1:, :, 0], tokens[:-1, :, -1] + 1)
    assert np.unique(tokens).size == tokens.size


@pytest.mark.parametrize(
    ("data", "offset", "message"),
    (
        (gzip.compress(SENTENCES.encode()), 1, "looks like gzip: unpack it"),
        (bz2.compress(SENTENCES.encode()), None, "looks like bzip2: unpack it"),
        (lzma.compress(SENTENCES.encode()), 0, "looks like xz: unpack it"),
        (pathlib.Path(sys.executable).read_bytes(), None, "looks like ELF"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 0, "looks like PNG"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", 0, "looks like JPEG"),
        (b"PK\x03\x04\x14\0\x06\0", 2, "looks like zip"),
        (SENTENCES.encode("utf-16"), 0, "UTF-16 with a byte-order mark: pass "),
        (SENTENCES.encode("utf-32"), 0, "UTF-32 with a byte-order mark: pass "),
        ("text\n".encode("utf-16-le") * 9, 1, "pass --encoding=utf-16-le"),
        ("text\n".encode("utf-16-be") * 9, 0, "--encoding=utf-16-be"),
        (f"{'a' * 70}ы".encode("cp1251"), 70, "as in --encoding=cp1251"),
        (bytes(100), 0, "looks like binary data"),
        ("ü".encode() * 3 + b"\0", 6, "looks like binary data"),
        (b"\xef\xbb\xbf" + b"text\x02", 7, "in another encoding"),
        (b"cut in a character \xc3", 19, "in another encoding"),
    ),
)
def test_what_is_no_text_is_refused(tmp_path, data, offset, message):
    """In one sentence: the file, the first bad offset, what it looks like."""
    path = tmp_path / "corpus"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        corpus.load(str(path), 2)
    said = str(error.value)
    assert said.startswith(f"{path} is n")
    assert said.count("\n") == 0
    found = int(re.search(r"at offset (\d+);", said)[1])
    assert found == offset or offset is None
    # It is the first: what is before is fine.
    data[:found].decode()
    # In a folder too.
    with pytest.raises(ValueError, match=re.escape(message)):
        corpus.load(str(tmp_path), 2)


def test_encodings(tmp_path):
    path = tmp_path / "corpus"
    path.write_text(RUSSIAN, encoding="utf-8")
    digest = corpus.load(str(path), 2).digest
    for encoding in ("cp1251", "utf-16", "koi8-r", "utf-8-sig"):
        path.write_text(RUSSIAN, encoding=encoding)
        assert corpus.load(str(path), 2, encoding).digest == digest
    # A byte-order mark is no word, nor are line ends of other systems.
    for text in (f"\ufeff{RUSSIAN}", RUSSIAN.replace("\n", "\r\n")):
        path.write_bytes(text.encode())
        assert corpus.load(str(path), 2).digest == digest
    with pytest.raises(ValueError, match="is not ascii text: byte 0xd1 at off"):
        corpus.load(str(path), 2, "ascii")
    # An encoding in which all bytes are characters, but not of text.
    path.write_bytes(gzip.compress(b"text"))
    with pytest.raises(ValueError, match=r"no text: .* U\+001F at offset 0"):
        corpus.load(str(path), 2, "latin-1")


@pytest.mark.parametrize("name", ("klingon", "zlib", "rot13", "", "a\0b"))
def test_encodings_that_are_none(name):
    with pytest.raises(ValueError, match=f"--encoding={name}: not an encoding"):
        Settings(encoding=name)


def test_an_encoding_has_one_name():
    assert Settings(encoding="UTF8") == Settings()
    assert Settings(encoding="windows-1251").encoding == "cp1251"


def test_joined_tokens_are_the_same_tokens():
    for path in (tokenizer.__file__, keyword.__file__, random.__file__):
        tokens = tokenizer.split(pathlib.Path(path).read_text())
        assert tokenizer.split(tokenizer.join(tokens)) == tokens
    assert tokenizer.join([]) == ""


def test_pieces_come_with_the_token_after():
    def tokens():
        for token in ("he", "said", ":", '"', "no", '"'):
            asked.append(token)
            yield token

    asked = []
    for piece, due in zip(
        tokenizer.pieces(tokens()),
        ("he", " said", ":", ' "', "no", '"'),
        strict=True,
    ):
        assert piece == due
        assert len(asked) <= 6
        assert len(asked) == 6 or asked[-2] == piece.strip()


@pytest.mark.parametrize(
    "text",
    (
        "def f(x, y):\n    return {g(x)[0]: 'a b', 1: \"\"} # two",
        'if (x ** 2 != y.z) and not [1.5]:\n\t"""It\'s done. Is it?"""',
        "She said, \"I don't know\" (and didn't). We'll see...",
        "an odd 'mark\nand 'two marks'",
        "@property\ndef f(self) -> int: self.x += 1 // 2",
        "我叫小明，今年20岁。\n“你好！”她说：《红楼梦》。",
        "吾輩は猫である。名前はまだ無い。「GPU上で動く」",
        "ภาษาไทยง่าย python",
    ),
)
def test_spaces_are_set_where_they_are_usual(text):
    assert tokenizer.join(tokenizer.split(text)) == text


def test_scripts_without_spaces_are_characters():
    assert tokenizer.split("我用Python3写，한국어 단어") == [
        *("我", "用", "Python3", "写", "，", "한국어", "단어")
    ]
    assert tokenizer.split("これはｶﾅ") == list("これはｶﾅ")
    assert tokenizer.split("ภาษา ไทย") == list("ภาษาไทย")
    assert tokenizer.split("über_1 слово") == ["über_1", "слово"]


def test_wide_characters_keep_their_tokens():
    """No spacing joins what were two tokens, nor parts one."""
    rng = random.Random(0)
    characters = "a1_é我の、。ＡＢ！ไ้ท(\"'.한"
    for _ in range(500):
        text = "".join(rng.choices(characters + "  ", k=12))
        tokens = tokenizer.split(text)
        assert tokenizer.split(tokenizer.join(tokens)) == tokens, text


def test_a_prompt_may_end_in_a_line_break():
    assert tokenizer.split_beginning("if x:\n    ") == [
        *("if", "x", ":", "\n    ")
    ]
    assert tokenizer.split_beginning("") == []
    assert tokenizer.split("if x:\n    ") == ["if", "x", ":"]
