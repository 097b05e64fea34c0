"""Files that say something of each class, one class after the other."""

import math
import os
import re
from typing import NamedTuple

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.text_lines import read_lines

_BLANKS = " \t"
_BLANK = re.compile(f"[{_BLANKS}]")
_NUMBER = re.compile(
    r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", re.ASCII
)
_COUNTS = (
    "a count is finite, not negative, and below 2**63 if it is an integer, as "
    "are 17, 0.5 and 1e3"
)


def _count_alone(line):
    return line.strip(_BLANKS), None


def _word_and_count(line):
    line = line.strip(_BLANKS)
    begin = 1 + max(map(line.rfind, _BLANKS))
    return line[begin:], line[:begin].rstrip(_BLANKS) or None


def _count_and_word(line):
    count, *word = _BLANK.split(line.lstrip(_BLANKS), maxsplit=1)
    return count, word[0].strip(_BLANKS) if word else None


# What a line may be, in the order of preference. Each returns the texts of the
# count and the word of a line, if it is that.
_FORMS = {
    "a count": _count_alone,
    "a word and a count": _word_and_count,
    # `uniq -c` writes such lines, and also counts empty lines.
    "a count and a word": _count_and_word,
}


def read_counts(path):
    """Reads how often each class occurs.

    Args:
      path: an .npy file with numbers `[N]`; or a text in UTF-8 with one class
        on a line: "count" on each, or "word count" on each, or "count word" on
        each, as `uniq -c` writes it. Words may have spaces within. Where words
        are numbers, the count is last, but first if line 1 begins with a blank,
        as it does in what `uniq -c` writes.

    Returns:
      The counts `[N]`, and the words, a list of N strs or None.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is no such file; names the line.
    """
    if _is_npy(path):
        return _checks.check_counts(read_array(path)), None
    lines = read_lines(path)
    form, decided_by = _form(lines)
    counts, words, first_lines = [], [], {}
    for number, line in enumerate(lines, 1):
        try:
            count, word = _FORMS[form](line)
            if not _is_form(form, count, word):
                rule = f"{form}, as line {decided_by} is"
                if number == decided_by:
                    rule = ", or ".join(_FORMS)
                raise ValueError(f"it must be {rule}; {_COUNTS}")
            counts.append(_number(count))
            if word is not None:
                words.append(_check_word(word))
                first = first_lines.setdefault(word, number)
                if first != number:
                    raise ValueError(
                        f"line {first} has the same word; each word has one "
                        "line (sort before `uniq -c`)"
                    )
        except ValueError as error:
            shown = line if len(line) < 80 else f"{line[:80]}..."
            raise ValueError(
                f"{path}, line {number} is {shown!r}; {error}"
            ) from error
    return _checks.check_counts(counts), words or None


class Examples(NamedTuple):
    """Training data, as `Tree.from_data` takes them."""

    labels: np.ndarray
    contexts: np.ndarray


def read_examples(path):
    """Reads `Examples` from an .npz file with arrays of these names.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is no such file.
    """
    with open(path, "rb") as file:
        try:
            arrays = np.load(file, allow_pickle=False)
            return Examples(arrays["labels"], arrays["contexts"])
        # NumPy and zipfile raise errors of many types on damaged bytes.
        except Exception as error:
            raise ValueError(
                f"{path} must be an .npz file with the arrays labels and "
                f"contexts: {error}"
            ) from error


def _form(lines):
    """Returns the form of all lines, and the number of one that decides it."""
    possible, decided_by = list(_FORMS), 1
    for number, line in enumerate(lines, 1):
        fits = [f for f in possible if _is_form(f, *_FORMS[f](line))]
        if not fits:
            break
        if len(fits) < len(possible):
            possible, decided_by = fits, number
        if len(fits) == 1:
            break
    if possible == list(_FORMS)[1:] and lines[0].startswith((" ", "\t")):
        return possible[-1], 1
    return possible[0], decided_by


def _is_form(form, count, word):
    """Returns whether the texts of a line have the form."""
    return (word is not None) == (form != "a count") and bool(
        _NUMBER.fullmatch(count)
    )


def _number(text):
    """Returns the number that a text of the form `_NUMBER` is."""
    if not text.isdigit():
        if not math.isfinite(float(text)):
            raise ValueError(_COUNTS)
        return float(text)
    digits = text.lstrip("0") or "0"
    if len(digits) >= 20 or int(digits) >= 2**63:
        raise ValueError(_COUNTS)
    return int(digits)


def _check_word(word):
    if word != word.strip():
        raise ValueError(
            "the word begins or ends with a space that is not one of ASCII"
        )
    return word


def read_paths(path):
    """Reads the path of each class, keys with a "/" between them, as tuples.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is not a text in UTF-8, a line or a key is empty, or a key
        begins or ends with a space; names the line.
    """
    paths = []
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}, line {number}"
        if not line:
            raise ValueError(
                f"{where} is empty; it must be a path, such as animal/cat"
            )
        keys = tuple(line.split("/"))
        for key in keys:
            if not key or key != key.strip():
                raise ValueError(
                    f"{where} is {line!r}, with the key {key!r}; a key must "
                    "not be empty, nor begin or end with a space"
                )
        paths.append(keys)
    return paths


def read_array(path):
    """Reads an .npy file; a ValueError names it if it is something else."""
    if not _is_npy(path):
        raise ValueError(f"{path} is not an .npy file")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    # On damaged bytes numpy raises errors of many types.
    except Exception as error:
        raise ValueError(
            f"{path} is no array that NumPy has saved, or is cut short: {error}"
        ) from error


def _is_npy(path):
    return os.fspath(path).endswith(".npy")
