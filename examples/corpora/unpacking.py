"""Files as plain text in UTF-8."""

import bz2
import codecs
import contextlib
import gzip
import lzma
import os
import zipfile
import zlib

from examples.corpora import text_check

_BLOCK = 1 << 22


def _open_plain(path):
    return open(path, "rb")


def _open_zstd(path):
    try:
        from compression import zstd
    except ImportError:
        raise ValueError(
            f"{path} is no text: it looks like zstd, which Python reads from "
            "3.14 on: unpack it first."
        ) from None
    return zstd.open(path, "rb")


@contextlib.contextmanager
def _open_zip(path):
    try:
        with zipfile.ZipFile(path) as archive:
            names = [i.filename for i in archive.infolist() if not i.is_dir()]
            if len(names) != 1:
                raise ValueError(
                    f"{path} is no text: it looks like zip (or docx, xlsx, "
                    f"epub) with {len(names)} files: unpack it first."
                )
            file = archive.open(names[0])
    except _DAMAGED as error:
        raise _damaged(path, error) from error
    with file:
        yield file


_OPENERS = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\0", lzma.open),
    (b"\x28\xb5\x2f\xfd", _open_zstd),
    (b"PK\x03\x04", _open_zip),
)
# What damaged files raise, all of it.
_DAMAGED = (
    EOFError,
    OSError,
    RuntimeError,  # of a zip that needs a password, or another Python
    lzma.LZMAError,
    zlib.error,
    zipfile.BadZipFile,
)


def is_plain(path, encoding):
    """Whether a file is to be read as it is: not packed, and in UTF-8."""
    return encoding in ("utf-8", "utf-8-sig") and _opener(path) is None


def unpack(path, encoding, output):
    """Writes the text of a file to an open file, in UTF-8.

    Args:
        path: of a file that may be packed: gzip, bzip2, xz, zstd, or zip with
            one member.
        encoding: of the text; a codec of Python.
        output: a binary file.

    Yields:
        The number of bytes written, again and again.

    Raises:
        ValueError: it is damaged, or no text in that encoding.
    """
    with (_opener(path) or _open_plain)(path) as file:
        decoder = codecs.getincrementaldecoder(encoding)()
        position, beginning, done = 0, b"", False
        while not done:
            try:
                data = file.read(_BLOCK)
            except TimeoutError:
                raise  # that of the command
            except _DAMAGED as error:
                raise _damaged(path, error) from error
            beginning = beginning or data[:1024]
            done = not data
            pending = len(decoder.getstate()[0])
            try:
                text = decoder.decode(data, final=done)
            except UnicodeError as error:
                raise text_check.not_decoded(
                    path, error, position - pending, beginning, encoding
                ) from None
            text_check.refuse_control(
                path, text, position - pending, beginning, encoding
            )
            if not position:
                text = text.removeprefix("\ufeff")
            position += len(data)
            yield output.write(text.encode())


def _damaged(path, error):
    return ValueError(f"{path} is damaged: {error}")


def beginning(path, size):
    """The first bytes of a file, unpacked; fewer if it is damaged."""
    with (
        contextlib.suppress(ValueError, *_DAMAGED),
        (_opener(path) or _open_plain)(path) as file,
    ):
        return file.read(size)
    return b""


def text_begin(path):
    """The offset of the text in a plain file: behind a byte-order mark."""
    with open(path, "rb") as file:
        mark = codecs.BOM_UTF8
        return len(mark) if file.read(len(mark)) == mark else 0


def refuse(path):
    """Raises `ValueError` with the first place at which a file is no text."""
    with open(os.devnull, "wb") as nothing:
        for _ in unpack(path, "utf-8", nothing):
            pass
    raise OSError(f"{path} changed while it was read: begin again.")


def _opener(path):
    with open(path, "rb") as file:
        start = file.read(6)
    for mark, opener in _OPENERS:
        if start.startswith(mark):
            return opener
    return None
