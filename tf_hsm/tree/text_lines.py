"""The lines of a text in UTF-8, with no character that no one sees."""

import re

# How a file begins that was taken for a text by mistake.
_OTHER_FILES = {
    b"\x1f\x8b": "compressed by gzip",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"PK\3\4": "a zip or .npz file",
    b"\x93NUMPY": "an .npy file, whose name must end in .npy",
    b"\xff\xfe": "a text in UTF-16",
    b"\xfe\xff": "a text in UTF-16",
}
# Characters of control but for the tab, ends of lines that are not ours, and
# the byte-order mark. Other programs read them as something else, or not.
_BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def refuse_other_files(path, begin):
    """Raises a ValueError if a file with these first bytes is no text."""
    for start, kind in _OTHER_FILES.items():
        if begin.startswith(start):
            raise ValueError(f"{path} is {kind}; it must be a text in UTF-8")


def read_lines(path):
    r"""Returns the lines of a text, without empty ones at its end.

    Lines end with "\n" or "\r\n". A byte-order mark at the begin is left out.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is empty, is no text in UTF-8, or has a character that is
        not seen; names the line.
    """
    with open(path, "rb") as file:
        data = file.read()
    refuse_other_files(path, data[:8])
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        raise ValueError(
            f"{path}, line {line} is not a text in UTF-8: it has the byte "
            f"0x{data[error.start]:02x} at offset {error.start} of the file"
        ) from error
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").rstrip("\n")
    if not text:
        raise ValueError(f"{path} is empty; a tree has at least one class")
    bad = _BAD.search(text)
    if bad is not None:
        raise ValueError(
            f"{path}, line {1 + text.count(chr(10), 0, bad.start())} has the "
            f"character U+{ord(bad[0]):04X}; it is not seen, and must not be "
            "there"
        )
    return text.split("\n")
