"""Reads the synsets of WordNet: the format of wndb(5WN), data.noun."""

import itertools
from typing import NamedTuple

PATH = "/usr/share/wordnet/data.noun"
# The pointer of a kind (dog, canine), and of an instance (Paris, city).
_HYPERNYMS = ("@", "@i")
_LICENCE = "  "


class Synset(NamedTuple):
    """One meaning."""

    words: tuple  # that have it, the most common first
    hypernyms: tuple  # the numbers of synsets that are more general
    definition: str  # the gloss, without the examples


def read(path):
    """Returns the synsets of a file, numbered in its order.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is no synset, or names one that is not there; says
            which line.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [
                (number, line)
                for number, line in enumerate(file, 1)
                if not line.startswith(_LICENCE)
            ]
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path} is not there. WordNet's nouns are in the package "
            "wordnet-base of Debian and Ubuntu (apt-get install wordnet-base)."
        ) from error
    synsets, numbers = [], {}
    for number, line in lines:
        try:
            offset, synset = _parse(line)
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: not a synset: {line[:50]!r}"
            ) from error
        if offset in numbers:
            raise ValueError(
                f"{path}, line {number}: synset {offset} was there before"
            )
        numbers[offset] = len(synsets)
        synsets.append(synset)
    if not synsets:
        raise ValueError(f"{path} holds no synsets")
    for i, synset in enumerate(synsets):
        for offset in synset.hypernyms:
            if offset not in numbers:
                raise ValueError(
                    f"{path}, line {lines[i][0]}: the hypernym {offset} is no "
                    "synset of the file"
                )
        synsets[i] = synset._replace(
            hypernyms=tuple(numbers[offset] for offset in synset.hypernyms)
        )
    return synsets


def _parse(line):
    """Returns the offset of a synset, and it, hypernyms as offsets.

    A line is: offset, file, type, the number of words (hexadecimal), each word
    with an id, the number of pointers, each of them four fields, | and the
    gloss.
    """
    data, bar, gloss = line.partition("|")
    fields = iter(data.split())
    offset, _, _, num_words = _take(fields, 4)
    words = _take(fields, 2 * int(num_words, 16))[::2]
    (num_pointers,) = _take(fields, 1)
    pointers = [_take(fields, 4) for _ in range(int(num_pointers))]
    if not (bar and words and offset.isdecimal()):
        raise ValueError
    return offset, Synset(
        tuple(words),
        tuple(target for kind, target, *_ in pointers if kind in _HYPERNYMS),
        gloss.strip().partition('; "')[0],
    )


def _take(fields, count):
    """Returns the next `count` fields; ValueError if there are fewer."""
    taken = list(itertools.islice(fields, count))
    if len(taken) < count:
        raise ValueError
    return taken
