"""Reads the documents of a corpus, and refuses files that are no text."""

import os
import pathlib
import re
import sysconfig

NAMED = ("stdlib", "stdlib+tests")

_NOT_CORPUS = {"site-packages", "dist-packages", "__pycache__"}
_TESTS = {"test", "tests", "idle_test"}

# No text has these; white space, backspace, bell and escape occur in some.
_CONTROL = re.compile(r"[\x00-\x06\x0e-\x19\x1c-\x1f]")
# How a file begins, what it then looks like, and what to do.
_UNPACK = "unpack it first"
_NO_TEXT = "give the text itself"
_MARKED = "with a byte-order mark"
_BEGINNINGS = (
    (b"\x1f\x8b", "gzip", _UNPACK),
    (b"BZh", "bzip2", _UNPACK),
    (b"\xfd7zXZ\0", "xz", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "zstd", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "7z", _UNPACK),
    (b"PK\x03\x04", "zip (or docx, xlsx, epub)", _UNPACK),
    (b"\x7fELF", "ELF, a program or library", _NO_TEXT),
    (b"\x89PNG", "PNG", _NO_TEXT),
    (b"\xff\xd8\xff", "JPEG", _NO_TEXT),
    (b"GIF8", "GIF", _NO_TEXT),
    (b"%PDF", "PDF", _NO_TEXT),
    (b"SQLite format 3\0", "SQLite", _NO_TEXT),
    (b"PAR1", "Parquet", _NO_TEXT),
    (b"\x93NUMPY", "a NumPy array", _NO_TEXT),
    (b"\xff\xfe\0\0", f"UTF-32 {_MARKED}", "pass --encoding=utf-32"),
    (b"\0\0\xfe\xff", f"UTF-32 {_MARKED}", "pass --encoding=utf-32"),
    (b"\xff\xfe", f"UTF-16 {_MARKED}", "pass --encoding=utf-16"),
    (b"\xfe\xff", f"UTF-16 {_MARKED}", "pass --encoding=utf-16"),
)


def read(source, encoding):
    """Returns the documents, a dict from name to text.

    Args:
        source: "stdlib", "stdlib+tests", or the path of a file or folder. Of a
            folder, hidden files and folders are left out.
        encoding: that of the files; the named sources have their own.

    Raises:
        FileNotFoundError: no such file or folder.
        ValueError: a file is no text in that encoding; says where, and what it
            looks like.
    """
    if source in NAMED:
        skipped = _NOT_CORPUS | (set() if source != "stdlib" else _TESTS)
        root = pathlib.Path(sysconfig.get_path("stdlib"))
        # Some of Python's tests are malformed on purpose.
        return {
            path.relative_to(root).as_posix(): path.read_text(
                encoding="utf-8", errors="replace"
            )
            for path in sorted(root.rglob("*.py"))
            if path.is_file()
            and skipped.isdisjoint(path.relative_to(root).parts[:-1])
        }
    if os.path.isdir(source):
        root = pathlib.Path(source)
        return {
            path.relative_to(root).as_posix(): _read_file(path, encoding)
            for path in sorted(root.rglob("*"))
            if path.is_file()
            and not any(
                part.startswith(".") or part == "__pycache__"
                for part in path.relative_to(root).parts
            )
        }
    if os.path.isfile(source):
        return {"": _read_file(source, encoding)}
    raise FileNotFoundError(
        f"--corpus={source}: no such file or folder, and neither "
        "'stdlib' nor 'stdlib+tests'."
    )


def _read_file(path, encoding):
    with open(path, "rb") as file:
        data = file.read()
    try:
        text = data.decode(encoding)
    except UnicodeError as error:
        offset = getattr(error, "start", 0)
        raise ValueError(
            f"{path} is not {encoding} text: byte 0x{data[offset]:02x} at "
            f"offset {offset}; {_advice(data, encoding)}."
        ) from error
    control = _CONTROL.search(text)
    if control:
        offset = len(text[: control.start()].encode(encoding))
        raise ValueError(
            f"{path} is no text: control character U+{ord(control[0]):04X} at "
            f"offset {offset}; {_advice(data, encoding)}."
        )
    text = text.removeprefix("\ufeff")  # a byte-order mark
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def _advice(data, encoding):
    """What data look like that are no text in this encoding."""
    for beginning, name, action in _BEGINNINGS:
        if data.startswith(beginning):
            return f"it looks like {name}: {action}"
    sample = data[:1024]
    for name, zeros in ("utf-16-le", sample[1::2]), ("utf-16-be", sample[::2]):
        others = len(sample) - len(zeros)
        if sample.count(0) > others // 2 and zeros.count(0) == sample.count(0):
            return (
                "it looks like UTF-16 without a byte-order mark: pass "
                f"--encoding={name}"
            )
    if sample.count(0):
        return "it looks like binary data"
    other = "cp1251" if encoding != "cp1251" else "utf-8"
    return (
        "if it is text in another encoding, name that, as in "
        f"--encoding={other}"
    )
