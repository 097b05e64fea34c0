"""The second pass: tokens to class ids in a file."""

import itertools
import json

import numpy as np

from examples.corpora import reading

DTYPE = np.dtype("<i4")


def start(rules, words_path, unknown):
    """Makes what `encode` needs, once in each process."""
    global _reader, _class_of, _unknown
    _reader = reading.Reader(rules)
    with open(words_path, encoding="utf-8") as file:
        _class_of = {word: i for i, word in enumerate(json.load(file))}
    _unknown = unknown


def encode(task):
    """Writes the class ids of some spans to their place in a file.

    Args:
        task: the spans, the path of the file, the number of the first token in
            it, and how many tokens are expected.

    Returns:
        The number of tokens of the class of unknown ones.

    Raises:
        ValueError: there are more or fewer tokens; the text has changed.
    """
    chunk, path, first, num_tokens = task
    parts = []
    for span in chunk:
        tokens = _reader.tokens(span)
        ids = map(_class_of.get, tokens, itertools.repeat(_unknown))
        parts.append(np.fromiter(ids, DTYPE, len(tokens)))
    ids = np.concatenate(parts)
    if ids.size != num_tokens:
        raise ValueError(
            f"{chunk[0].path} changed while it was read: begin again."
        )
    with open(path, "r+b") as file:
        file.seek(first * DTYPE.itemsize)
        file.write(ids.data)
    return int((ids == _unknown).sum())
