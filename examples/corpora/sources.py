"""What `--corpus` may name: files, folders, patterns, and texts by name."""

import dataclasses
import functools
import glob
import os
import pathlib
import sysconfig
from collections.abc import Callable, Iterator

from examples.corpora import formats
from examples.corpora.debian import documents as debian
from examples.corpora.synthetic import texts as synthetic

NAMED = ("stdlib", "stdlib+tests")
_KINDS = ("debian", "synthetic")

_NOT_CORPUS = {"site-packages", "dist-packages", "__pycache__"}
_TESTS = {"test", "tests", "idle_test"}


def is_name(corpus):
    """Whether `--corpus` is no path."""
    kind, colon, _ = corpus.partition(":")
    return corpus in NAMED or (bool(colon) and kind in _KINDS)


@dataclasses.dataclass(frozen=True)
class Source:
    """The files of a corpus.

    Attributes:
        title: a short name, of letters, digits, "_" and "-".
        format: name of a format.
        parts: `{part: {name: path}}`; the part "" is not divided yet.
        folder: that of a data set; else as given.
        texts: a function to an iterator over names and texts of documents,
            which are made of these files; None: the files are the texts.
        is_strict: whether what is no text is refused; else replaced.
    """

    title: str
    format: str
    parts: dict[str, dict[str, str]]
    folder: str = ""
    texts: Callable[[], Iterator[tuple[str, str]]] | None = None
    is_strict: bool = True

    def state(self):
        """What changes when a file does: sizes and times, for `json`."""
        return [
            (
                part,
                name,
                os.path.abspath(path),
                status.st_size,
                status.st_mtime_ns,
            )
            for part, files in self.parts.items()
            for name, path in files.items()
            for status in [os.stat(path)]
        ]


def find(corpus, format_name, cache_root):
    """Returns the `Source` that `--corpus` and `--format` mean.

    Args:
        corpus: one of `NAMED`, "debian:NAME", "synthetic:NAME", or the path of
            a file or folder, or a pattern as of `glob`. Hidden files of
            a folder are left out.
        format_name: name of a format, or "auto".
        cache_root: folder for texts that are made.

    Raises:
        FileNotFoundError: there are no such files.
        ValueError: they are not of that format.
    """
    if corpus in NAMED:
        return _standard_library(corpus)
    if not corpus:
        raise FileNotFoundError("--corpus=: give a file, a folder or a name.")
    kind, _, name = corpus.partition(":")
    if is_name(corpus) and kind == "debian":
        return _debian(name)
    if is_name(corpus):
        corpus = str(synthetic.write(name, cache_root).path)
    is_pattern = not os.path.exists(corpus) and glob.has_magic(corpus)
    if is_pattern:
        found = sorted(
            filter(os.path.isfile, glob.glob(corpus, recursive=True))
        )
        folder = (
            os.path.commonpath(map(os.path.dirname, found)) if found else ""
        )
        paths = {os.path.relpath(path, folder): path for path in found}
    elif os.path.isdir(corpus):
        paths = _visible_files(pathlib.Path(corpus))
    elif os.path.isfile(corpus):
        paths = {os.path.basename(corpus): corpus}
    else:
        raise FileNotFoundError(
            f"--corpus={corpus}: no such file or folder, and none of "
            f"{', '.join(NAMED)}, debian:NAME, synthetic:NAME."
        )
    if not paths:
        raise FileNotFoundError(f"--corpus={corpus}: there are no files.")
    if format_name == "auto":
        format_name = formats.recognise(None if is_pattern else corpus, paths)
    return Source(
        title=_title(corpus),
        format=format_name,
        parts=formats.parts_of(format_name, corpus, paths),
        folder=corpus,
    )


def _title(corpus):
    letters = os.path.basename(os.path.normpath(corpus)).partition(".")[0]
    kept = "".join(c if c.isalnum() and c.isascii() else "_" for c in letters)
    return kept[:40] or "corpus"


def _visible_files(root):
    paths = {
        path.relative_to(root).as_posix(): str(path)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
    return {
        name: path
        for name, path in paths.items()
        if not any(
            part.startswith(".") or part == "__pycache__"
            for part in name.split("/")
        )
    }


def _standard_library(corpus):
    skipped = _NOT_CORPUS | (set() if corpus != "stdlib" else _TESTS)
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    paths = {
        path.relative_to(root).as_posix(): str(path)
        for path in sorted(root.rglob("*.py"))
        if path.is_file()
        and skipped.isdisjoint(path.relative_to(root).parts[:-1])
    }
    # Some of Python's tests are malformed on purpose.
    return Source(corpus, "documents", {"": paths}, is_strict=False)


def _debian(name):
    paths = {key: str(path) for key, path in debian.files(name).items()}
    return Source(
        title=f"debian_{name}",
        format="documents",
        parts={"": paths},
        texts=functools.partial(debian.documents, name),
    )
