"""The binary format of fastText, versions 11 and 12, for dense models.

Little-endian, without padding:

    magic, version                                   int32
    dim ws epoch minCount neg wordNgrams loss model
      bucket minn maxn lrUpdateRate                  int32
    t                                                float64
    entries, words, labels                           int32
    tokens, entries of pruned n-grams or -1          int64
    for each entry, words first:
      text, a zero byte, count (int64), 0 for a word and 1 for a label (int8)
    whether the input matrix is quantized            int8
    input matrix, [words + bucket, dim]
    whether the output matrix is quantized           int8
    output matrix, [labels, dim], without supervision [words, dim]

A dense matrix is its shape, two int64, and then float32.
"""

import os
from typing import NamedTuple

import numpy as np

from tf_hsm.converters._binary_reader import BinaryReader

_MAGIC = 793_712_314
_LOSSES = {1: "hs", 2: "ns", 3: "softmax", 4: "ova"}
_MODELS = {1: "cbow", 2: "skipgram", 3: "supervised"}
_INT32_MAX = 2**31 - 1
# What fastText takes for the count of a node that it has not made yet.
_COUNT_LIMIT = 10**15


class Settings(NamedTuple):
    """The arguments of the training that matter afterwards."""

    supervised: bool
    dim: int
    word_ngrams: int
    bucket: int
    minn: int
    maxn: int


class Entries(NamedTuple):
    """The words of a dictionary, or its labels."""

    texts: list[bytes]
    counts: list[int]


class Contents(NamedTuple):
    """The contents of a file."""

    settings: Settings
    words: Entries
    labels: Entries
    inputs: np.ndarray  # [words + bucket, dim]
    outputs: np.ndarray  # [labels, dim] or [words, dim]


def read(path):
    """Reads a file of a model with a hierarchical softmax.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is another model, quantized, damaged or cut short; names
        the field, its value and the legal range.
    """
    with open(os.fspath(path), "rb") as file:
        return _read(BinaryReader(file, "a fastText model"))


def _read(reader):
    magic, version = reader.numbers("its head", "2i")
    if magic != _MAGIC:
        raise reader.error(
            f"it begins with {magic}, where a fastText model has {_MAGIC}"
        )
    reader.check("its version", version, 11, 12)
    settings = _read_settings(reader, version)
    words, labels = _read_dictionary(reader)
    outputs_of = labels if settings.supervised else words
    if not outputs_of.texts:
        raise reader.error(
            "it has no labels; a supervised model has at least 1"
            if settings.supervised
            else "it has no words; a model has at least 1"
        )
    num_inputs = len(words.texts) + settings.bucket
    _refuse_quantized(reader)
    inputs = reader.matrix("the input matrix", num_inputs, settings.dim)
    _refuse_quantized(reader)
    outputs = reader.matrix(
        "the output matrix", len(outputs_of.texts), settings.dim
    )
    if reader.remaining:
        raise reader.error(f"{reader.remaining} bytes follow its end")
    return Contents(settings, words, labels, inputs, outputs)


def _read_settings(reader, version):
    dim, _, _, _, _, word_ngrams, loss, model, bucket, minn, maxn, _, _ = (
        reader.numbers("its settings", "12id")
    )
    reader.check("loss", loss, min(_LOSSES), max(_LOSSES))
    if _LOSSES[loss] != "hs":
        raise reader.error(
            f"its loss is {_LOSSES[loss]}; only hs, the hierarchical softmax, "
            "has a tree"
        )
    reader.check("model", model, min(_MODELS), max(_MODELS))
    reader.check("dim", dim, 1, _INT32_MAX)
    reader.check("wordNgrams", word_ngrams, 0, _INT32_MAX)
    reader.check("bucket", bucket, 0, _INT32_MAX)
    supervised = _MODELS[model] == "supervised"
    if version == 11 and supervised:
        maxn = 0  # Those models had no subwords, whatever it says.
    if not bucket and (maxn > 0 or (supervised and word_ngrams > 1)):
        raise reader.error(
            f"bucket is 0; with maxn {maxn} and wordNgrams {word_ngrams} it "
            "must be at least 1"
        )
    return Settings(supervised, dim, word_ngrams, bucket, minn, maxn)


def _read_dictionary(reader):
    """Returns the words and the labels, both `Entries`."""
    size, num_words, num_labels, _, num_pruned = reader.numbers(
        "its dictionary", "3i2q"
    )
    reader.check("the number of words", num_words, 0, _INT32_MAX)
    reader.check("the number of labels", num_labels, 0, _INT32_MAX)
    if num_words + num_labels != size:
        raise reader.error(
            f"its dictionary has {size} entries; {num_words} words and "
            f"{num_labels} labels make {num_words + num_labels}"
        )
    if num_pruned != -1:
        raise reader.error(
            f"its n-grams are pruned to {num_pruned}, as only those of a "
            "quantized model are; convert the .bin it was made from"
        )
    # An entry is a zero byte, a count and a type at least.
    reader.need("its dictionary", 10 * size)
    words, labels = Entries([], []), Entries([], [])
    for position in range(size):
        entries, kind = (words, 0) if position < num_words else (labels, 1)
        name = f"entry {position}"
        entries.texts.append(reader.text(name))
        count, its_kind = reader.numbers(name, "qb")
        reader.check(f"the count of {name}", count, 0, _COUNT_LIMIT - 1)
        reader.check(f"the type of {name}", its_kind, kind, kind)
        entries.counts.append(count)
    return words, labels


def _refuse_quantized(reader):
    (quantized,) = reader.numbers("a flag", "b")
    reader.check("the flag of a quantized matrix", quantized, 0, 1)
    if quantized:
        raise reader.error(
            "it is quantized (.ftz); convert the .bin it was made from"
        )
