"""Files of counts, paths and arrays: what is meant, and what is refused."""

import re

import numpy as np
import pytest

from tf_hsm.tree import class_files


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="file"):
        if isinstance(content, str):
            content = content.encode()
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write_file


@pytest.mark.parametrize(
    ("text", "counts", "words"),
    [
        ("3\n0\n7", [3, 0, 7], None),
        (" 3 \n007\t\n", [3, 7], None),
        ("3\r\n0.5\r\n\r\n\n", [3.0, 0.5], None),
        (".5\n5.\n1e3\n2E-1", [0.5, 5.0, 1000.0, 0.2], None),
        (f"{2**62}\n{'0' * 30}1", [2**62, 1], None),
        # A byte-order mark is no part of the text.
        ("\ufeff3\n4", [3, 4], None),
        ("\ufeffthe 3", [3], ["the"]),
        # A word and a count.
        ("a b 3\n 5 6\n  x  4\t\n", [3, 6, 4], ["a b", "5", "x"]),
        ("x\t1e3\r\ny 2\r\n", [1000.0, 2.0], ["x", "y"]),
        ("New  York 3", [3], ["New  York"]),
        ("10 Downing Street 5\nthe 3", [5, 3], ["10 Downing Street", "the"]),
        ("5 6\n7 8", [6, 8], ["5", "7"]),
        ("New\u00a0York 1\n猫 2", [1, 2], ["New\u00a0York", "猫"]),
        # What `uniq -c` writes: a count and a word.
        ("      7 the\n      3 of\n", [7, 3], ["the", "of"]),
        ("      7 17\n      3 4 2\n", [7, 3], ["17", "4 2"]),
        ("      9 \n      3 a\n", [9, 3], ["", "a"]),
        ("1234567 0\n      7 the\n", [1234567, 7], ["0", "the"]),
        ("7\tthe\n3\tof", [7, 3], ["the", "of"]),
    ],
)
def test_counts(write, text, counts, words):
    found, names = class_files.read_counts(write(text))
    assert found.tolist() == counts and names == words
    assert found.dtype == np.array(counts).dtype


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (f"a 1\nb {count}", f", line 2 is 'b {count}'; it must be")
            for count in (
                *("1_000", "+5", "-1", "nan", "inf", "0x10", "1,000", "", "."),
                *("٣", "５", "²", "1e", "e5", "1.5.2", "x"),
            )
        ),
        ("1_000", "is '1_000'; it must be a count, or a word and a count, or"),
        ("٣", "a count is finite, not negative, and below 2**63 if it is"),
        ("1e999", "a count is finite"),
        (str(2**63), "below 2**63"),
        ("9" * 5000, "99...'; a count is"),
        # Characters that are not seen, or are another end of line elsewhere.
        *(
            (f"a 1\nb{mark} 2", f", line 2 has the character U+{ord(mark):04X}")
            for mark in "\0\a\b\v\f\x1b\x1c\x7f\x85\u2028\u2029\ufeff"
        ),
        ("a 1\rb 2", "line 1 has the character U+000D"),
        ("a 1\n\ufeffb 2", "line 2 has the character U+FEFF"),
        # A space that is none of ASCII.
        ("a\u00a07", "is 'a\\xa07'; it must be a count"),
        ("a \u00a07", "is 'a \\xa07'; it must be a count"),
        ("a\u00a0 7", "the word begins or ends with a space that is not"),
        ("\u30007 the", "it must be a count"),
        # Lines that are not alike.
        ("3\n\n4", "line 2 is ''; it must be a count, as line 1 is"),
        ("3\n \n4", "line 2 is ' '; it must be"),
        ("\n3", "line 1 is ''; it must be a count, or a word"),
        ("1\nb 2", "line 2 is 'b 2'; it must be a count, as line 1"),
        (
            "5 6\na 1\nb",
            "line 3 is 'b'; it must be a word and a count, as line 2",
        ),
        ("the 3\n5 of", "'5 of'; it must be a word and a count, as line 1"),
        (" 3 the\nof 5", "'of 5'; it must be a count and a word, as line 1"),
        ("a 1\nb 1\na 2", "line 3 is 'a 2'; line 1 has the same word"),
        ("  7 the\n  3   the", "line 2 is '  3   the'; line 1 has the same"),
        # Other files.
        ("", "is empty"),
        ("\ufeff\n\r\n", "is empty"),
        (
            b"a 1\ncaf\xe9 1",
            "line 2 is not a text in UTF-8: it has the byte 0xe9",
        ),
        (b"\xef\xbb\xbfcaf\xe9 1", "at offset 6 of the file"),
        (b"\x1f\x8b\x08\0", "compressed by gzip"),
        (b"PK\3\4", "a zip or .npz file"),
        ("a 1".encode("utf-16"), "a text in UTF-16"),
        ("a 1".encode("utf-16-le"), "line 1 has the character U+0000"),
        (b"\x93NUMPY\1\0", "an .npy file, whose name must end in .npy"),
    ],
)
def test_counts_that_are_refused(write, text, message):
    path = write(text)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        class_files.read_counts(path)
    assert str(error.value).startswith(str(path))


def test_a_line_of_blanks_takes_no_time(write):
    blanks = " " * 10**6
    with pytest.raises(ValueError, match="line 1"):
        class_files.read_counts(write(f"{blanks}a{blanks}b"))


def test_paths(write):
    path = write("\ufeffanimal/cat\r\nNew York/a b\r\n\r\n")
    assert class_files.read_paths(path) == [
        ("animal", "cat"),
        ("New York", "a b"),
    ]
    for text, message in (
        ("a/b\n\nc", "line 2 is empty"),
        ("a/b\na//c", "line 2 is 'a//c', with the key ''"),
        ("/a", "line 1 is '/a', with the key ''"),
        ("a/b/", "the key ''"),
        ("a / b", "the key 'a '"),
        ("a/b\u00a0", "with the key 'b\\xa0'"),
        ("a\n\ufeffb", "line 2 has the character U+FEFF"),
        (b"a\n\xff", "line 2 is not a text in UTF-8"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            class_files.read_paths(write(text))


def test_arrays(write, tmp_path):
    path = tmp_path / "counts.npy"
    for dtype in ("<i2", ">i8", "u1", "<f2", ">f4", "f8"):
        np.save(path, np.array([3, 0, 7], dtype))
        counts, words = class_files.read_counts(path)
        assert counts.tolist() == [3, 0, 7] and words is None
    whole = path.read_bytes()
    for content in (
        *(whole[:size] for size in range(len(whole))),
        whole.replace(b"(3,)", b"(9,)"),
        whole.replace(b"(3,)", b"(-3,"),
        whole.replace(b"(3,)", b"(3.)"),
        whole.replace(b"<f8", b"|O8"),
        whole.replace(b"<f8", b"<q8"),
    ):
        with pytest.raises(ValueError, match=r"counts\.npy is no array"):
            class_files.read_counts(write(content, "counts.npy"))
    for array in (["a"], [True], [1j], [[1]], 1, [np.datetime64(1, "s")]):
        np.save(path, np.array(array))
        with pytest.raises(ValueError, match="counts must"):
            class_files.read_counts(path)
