"""The texts that `--corpus` names: files, folders, patterns, data sets."""

import bz2
import dataclasses
import glob
import gzip
import importlib
import io
import itertools
import lzma
import os
import pathlib
import sysconfig
import zipfile
import zlib

from examples.corpora import formats

NAMES = ("stdlib", "stdlib+tests")
HUB = "hub:"

_NOT_CORPUS = {"site-packages", "dist-packages", "__pycache__"}
_TESTS = {"test", "tests", "idle_test"}
_BLOCK = 1 << 23
_DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
_PACKED = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}


def is_path(corpus):
    """Returns whether `--corpus` is a path, and not the name of a text."""
    return corpus not in NAMES and not corpus.startswith(HUB)


@dataclasses.dataclass(frozen=True)
class Source:
    """The files of a corpus.

    Attributes:
        corpus: The value of `--corpus`.
        format: The name of the format.
        parts: `{part: {name: path}}`; the part "" is not divided yet.
        errors: What to do with bytes that are no text, as for `open`.
    """

    corpus: str
    format: str
    parts: dict[str, dict[str, str]]
    errors: str = "strict"

    def state(self):
        """Returns sizes and times of the files, which change with a file."""
        return [
            (part, name, os.path.abspath(path), s.st_size, s.st_mtime_ns)
            for part, files in self.parts.items()
            for name, path in files.items()
            for s in [os.stat(path)]
        ]


def find(corpus, format_name="auto"):
    """Returns the `Source` that `--corpus` and `--format` mean.

    Raises:
        FileNotFoundError: There are no such files.
        ValueError: The files do not have that format.
    """
    if corpus in NAMES:
        # Some of Python's tests are malformed on purpose.
        return Source(
            corpus, "documents", {"": _standard_library(corpus)}, "replace"
        )
    if corpus.startswith(HUB):
        return Source(corpus, "hugging_face", {})
    if os.path.isdir(corpus):
        paths = _visible_files(pathlib.Path(corpus))
    else:
        found = (
            [corpus]
            if os.path.isfile(corpus)
            else glob.glob(corpus, recursive=True)
        )
        found = sorted(filter(os.path.isfile, found))
        folder = os.path.commonpath(map(os.path.dirname, found or [corpus]))
        paths = {os.path.relpath(path, folder): path for path in found}
    if not paths:
        raise FileNotFoundError(
            f"--corpus={corpus}: there are no such files. Give a file, a "
            f"folder, a pattern, hub:NAME, or one of {', '.join(NAMES)}."
        )
    if format_name == "auto":
        format_name = formats.recognise(corpus, paths, _beginning)
    return Source(
        corpus, format_name, formats.parts_of(format_name, corpus, paths)
    )


def _standard_library(corpus):
    skipped = _NOT_CORPUS | (_TESTS if corpus == "stdlib" else set())
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    return {
        path.relative_to(root).as_posix(): str(path)
        for path in sorted(root.rglob("*.py"))
        if path.is_file()
        and skipped.isdisjoint(path.relative_to(root).parts[:-1])
    }


def _visible_files(root):
    names = (path.relative_to(root) for path in sorted(root.rglob("*")))
    return {
        name.as_posix(): str(root / name)
        for name in names
        if (root / name).is_file()
        and not any(p.startswith(".") or p == "__pycache__" for p in name.parts)
    }


def documents(source, encoding, field):
    """Yields `(part, name, blocks)` for each document of a `Source`.

    The blocks of a document are strings of whole lines.

    Args:
        source: The `Source`.
        encoding: The encoding of files.
        field: The name of the texts in the examples of a data set.

    Raises:
        ValueError: A file is damaged, or no text in that encoding.
    """
    if source.format in formats.DATA_SETS:
        found = _data_set(source, field)
        for part, pairs in itertools.groupby(found, lambda pair: pair[0]):
            yield part, part, _joined(text for _, text in pairs)
        return
    for part, files in source.parts.items():
        for name, path in files.items():
            yield part, name, _blocks(path, encoding, source.errors)


def _joined(texts):
    while batch := list(itertools.islice(texts, 1000)):
        yield "".join(f"{text}\n" for text in batch)


def _blocks(path, encoding, errors):
    """Yields the text of a file, some lines at a time."""
    try:
        with _opened(path, encoding, errors) as file:
            while lines := file.readlines(_BLOCK):
                text = "".join(lines)
                if errors == "strict" and "\0" in text:
                    raise ValueError("it has NUL characters")
                yield text
    except ValueError as error:
        raise ValueError(
            f"{path} is no {encoding} text: {error}. --encoding names another."
        ) from None
    except _DAMAGED as error:
        if getattr(error, "errno", None):  # such as a missing permission
            raise
        raise ValueError(f"{path} is damaged: {error}") from error


def _opened(path, encoding, errors):
    """Opens a file of text, which gzip, bzip2, xz or zip may have packed."""
    # Drops a byte-order mark.
    encoding = "utf-8-sig" if encoding == "utf-8" else encoding
    with open(path, "rb") as file:
        start = file.read(5)
    if start.startswith(b"PK\x03\x04"):
        archive = zipfile.ZipFile(path)
        names = archive.namelist()
        if len(names) != 1:
            raise ValueError(f"it is a zip archive of {len(names)} files")
        return io.TextIOWrapper(archive.open(names[0]), encoding, errors)
    opener = open
    for mark, unpack in _PACKED.items():
        opener = unpack if start.startswith(mark) else opener
    return opener(path, "rt", encoding=encoding, errors=errors)


def _beginning(path):
    """The first characters of a file; "" if it is damaged."""
    try:
        with _opened(path, "utf-8", "replace") as file:
            return file.read(1 << 20)
    except (ValueError, *_DAMAGED):
        return ""


def _data_set(source, field):
    """Yields `(part, text)` for each text of a data set."""
    if source.format == "tfrecord":
        examples = _tf_records(source.parts[""].values(), field)
    elif source.format == "tf_data":
        examples = _tf_data(source.corpus, field)
    else:
        examples = _hugging_face(source.corpus, field)
    try:
        for part, value in examples:
            yield part, value.decode() if isinstance(value, bytes) else value
    except KeyError as error:
        raise ValueError(
            f"{source.corpus} has no field {error}: --field names another."
        ) from None


def _tf_records(paths, field):
    import tensorflow as tf

    spec = {field: tf.io.FixedLenFeature([], tf.string)}
    try:
        for record in tf.data.TFRecordDataset(list(paths)):
            value = tf.io.parse_single_example(record, spec)[field]
            yield "", value.numpy()
    except tf.errors.OpError as error:
        raise ValueError(
            f"No text in the field {field!r} of a TFRecord file: "
            f"{error.message}"
        ) from None


def _tf_data(folder, field):
    import tensorflow as tf

    try:
        for element in tf.data.Dataset.load(folder).as_numpy_iterator():
            yield "", element[field] if isinstance(element, dict) else element
    except tf.errors.OpError as error:
        raise ValueError(
            f"{folder} is damaged, or no folder that tf.data.Dataset.save "
            f"wrote: {error.message}"
        ) from None


def _hugging_face(corpus, field):
    try:
        datasets = importlib.import_module("datasets")
    except ModuleNotFoundError:
        raise ValueError(
            f"--corpus={corpus} needs the library datasets: pip install "
            "datasets"
        ) from None
    if corpus.startswith(HUB):
        name, _, config = corpus.removeprefix(HUB).partition(":")
        data = datasets.load_dataset(name, config or None)
    else:
        data = datasets.load_from_disk(corpus)
    parts = dict(data) if isinstance(data, dict) else {"": data}
    if "validation" in parts:
        parts["valid"] = parts.pop("validation")
    if "" not in parts and not parts.keys() >= set(formats.PARTS):
        if "train" not in parts:
            raise ValueError(
                f"{corpus} has no part train, but {', '.join(parts)}."
            )
        parts = {"": parts["train"]}
    for name, part in parts.items():
        if name in ("", *formats.PARTS):
            if field not in part.column_names:
                raise KeyError(field)
            for example in part.select_columns([field]):
                yield name, example[field]
