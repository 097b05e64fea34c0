"""The texts that `--corpus` names: files, folders, patterns, `stdlib`."""

import bz2
import glob
import gzip
import lzma
import os
import pathlib
import sysconfig
import zlib

STDLIB = "stdlib"

_NOT_CORPUS = {"site-packages", "dist-packages", "__pycache__"}
_TESTS = {"test", "tests", "idle_test"}
_DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error)
_PACKED = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}


def find(corpus):
    """Returns the files that `--corpus` names, a dict from names to paths.

    Raises:
        FileNotFoundError: There are no such files.
    """
    if corpus == STDLIB:
        return _standard_library()
    if os.path.isdir(corpus):
        paths = _visible_files(pathlib.Path(corpus))
    else:
        is_file = os.path.isfile(corpus)
        found = [corpus] if is_file else glob.glob(corpus, recursive=True)
        found = sorted(filter(os.path.isfile, found))
        folder = os.path.commonpath(map(os.path.dirname, found or [corpus]))
        paths = {os.path.relpath(path, folder): path for path in found}
    if not paths:
        raise FileNotFoundError(
            f"--corpus={corpus}: there are no such files. Give a file, a "
            f"folder, a pattern, or {STDLIB}."
        )
    return paths


def _standard_library():
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    return _files(
        root,
        "*.py",
        lambda name: not (_NOT_CORPUS | _TESTS) & {*name.parts[:-1]},
    )


def _visible_files(root):
    return _files(
        root,
        "*",
        lambda name: (
            not any(p.startswith(".") or p == "__pycache__" for p in name.parts)
        ),
    )


def _files(root, pattern, is_wanted):
    names = (path.relative_to(root) for path in sorted(root.rglob(pattern)))
    return {
        name.as_posix(): str(root / name)
        for name in names
        if is_wanted(name) and (root / name).is_file()
    }


def read(path, encoding):
    """Returns the text of a file, which gzip, bzip2 or xz may have packed.

    Raises:
        ValueError: The file is damaged, or no text in that encoding.
    """
    # Drops a byte-order mark.
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    with open(path, "rb") as file:
        start = file.read(5)
    opener = open
    for mark, unpack in _PACKED.items():
        opener = unpack if start.startswith(mark) else opener
    try:
        with opener(path, "rt", encoding=codec) as file:
            text = file.read()
        if "\0" in text:
            raise ValueError("it has NUL characters")
    except ValueError as error:
        raise ValueError(
            f"{path} is no {encoding} text: {error}. --encoding names another."
        ) from None
    except _DAMAGED as error:
        if getattr(error, "errno", None):  # such as a missing permission
            raise
        raise ValueError(f"{path} is damaged: {error}") from error
    return text
