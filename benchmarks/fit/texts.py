"""Tasks: the next word of an English and of a German text."""

import collections
import gzip
import re

import numpy as np

from benchmarks.fit import packages

NUM_WORDS = 10_000
_LENGTH = 4  # words of a context
_HELD_OUT_EVERY = 20  # documents
_END = "</s>"
_MACRO = re.compile(r"""^[.'](?:\\"|de|ig|so|if|ie|el|TH|nr|ds).*$""", re.M)
_NAME = re.compile(r"^[.'][A-Za-z]+ ?", re.M)
_ESCAPE = re.compile(r"\\(?:f(?:\[\w*\]|\(..|.)|\((..)|\[[^]]*\]|[,/&|^%:])")
_RULE = re.compile(r"([^\w\s])\1{2,}")
_TOKEN = re.compile(r"\w+|[^\w\s]")


def english(folder):
    """The documentation of Linux."""
    paths = packages.files(
        "linux-doc",
        "usr/share/doc/linux-doc*/html/_sources/**/*.rst.txt*",
        folder,
    )
    paths = [path for path in paths if "translations" not in path.parts]
    return _task(map(_read, paths))


def german(folder):
    """The German manual pages."""
    paths = packages.files("manpages-de", "usr/share/man/de/man*/*.gz", folder)
    return _task(map(without_macros, map(_read, paths)))


def without_macros(text):
    r"""Returns the running text of a manual page.

    >>> without_macros(".PP\n\\fBls\\fP zeigt \\-\\-all\n")
    '\nls zeigt --all\n'
    """
    text = _NAME.sub("", _MACRO.sub("", text))
    return _ESCAPE.sub("", text.replace(r"\-", "-"))


def windows(documents, ids, unknown):
    """Returns contexts `[n, 4]` and labels `[n]` of all words in documents."""
    stream = np.array(
        [ids.get(word, unknown) for words in documents for word in words],
        np.int32,
    )
    seen = np.lib.stride_tricks.sliding_window_view(stream, _LENGTH + 1)
    return seen[:, :-1], seen[:, -1]


def split(text):
    """Returns the words and punctuation marks of a document, and its end."""
    return [*_TOKEN.findall(_RULE.sub(r"\1", text)), _END]


def _task(texts):
    training, held_out = [], []
    for i, text in enumerate(texts):
        part = training if i % _HELD_OUT_EVERY else held_out
        part.append(split(text))
    counts = collections.Counter(word for words in training for word in words)
    words = [word for word, _ in counts.most_common(NUM_WORDS)]
    ids = {word: i for i, word in enumerate(words)}
    unknown = len(words)
    return {
        "training": windows(training, ids, unknown),
        "held_out": windows(held_out, ids, unknown),
        "num_classes": len(words) + 1,
        "is_bag": False,
    }


def _read(path):
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return data.decode("utf-8", errors="replace")
