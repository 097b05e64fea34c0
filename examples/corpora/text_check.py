"""Refuses what is no text, and says what it looks like."""

import re

# No text has these; white space, backspace, bell and escape occur in some.
_CONTROL = re.compile(r"[\x00-\x06\x0e-\x19\x1c-\x1f]")
_CONTROL_BYTES = bytes([*range(0x07), *range(0x0E, 0x1A), *range(0x1C, 0x20)])
_UNPACK = "unpack it first"
_NO_TEXT = "give the text itself"
_MARKED = "with a byte-order mark"
# How a file begins, what it then looks like, and what to do.
_BEGINNINGS = (
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
_TAR = slice(257, 262), b"ustar"
_SAMPLE = 1024


def not_decoded(path, error, offset, beginning, encoding):
    """The `ValueError` for a `UnicodeError`.

    Args:
        path: the file, as its owner knows it.
        error: what the decoder raised.
        offset: where in the file the bytes begin that it was given.
        beginning: the first bytes of the file.
        encoding: as given.
    """
    place = getattr(error, "start", 0)
    byte = getattr(error, "object", b"\0")[place]
    return ValueError(
        f"{path} is not {encoding} text: byte 0x{byte:02x} at offset "
        f"{offset + place}; {_advice(beginning, encoding)}."
    )


def refuse_control(path, text, offset, beginning, encoding):
    """Raises `ValueError` if a decoded text has control characters.

    The arguments are those of `not_decoded`.
    """
    control = _CONTROL.search(text)
    if control:
        # In all encodings with a byte-order mark, that is before the text.
        place = len(text[: control.start()].encode(encoding))
        raise ValueError(
            f"{path} is no text: control character U+{ord(control[0]):04X} at "
            f"offset {offset + place}; {_advice(beginning, encoding)}."
        )


def has_control(data):
    """Whether bytes of UTF-8 have control characters; a quick check."""
    return len(data.translate(None, _CONTROL_BYTES)) != len(data)


def beginning(path):
    """The first bytes of a file, by which a format is known."""
    with open(path, "rb") as file:
        return file.read(_SAMPLE)


def _advice(sample, encoding):
    """What data look like that are no text in this encoding."""
    for start, name, action in _BEGINNINGS:
        if sample.startswith(start):
            return f"it looks like {name}: {action}"
    where, mark = _TAR
    if sample[where] == mark:
        return f"it looks like tar: {_UNPACK}"
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
