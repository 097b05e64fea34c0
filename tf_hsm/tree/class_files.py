"""Files that say something of each class, one class after the other."""

import os

import numpy as np

from tf_hsm import _checks

_BLANKS = " \t"


def read_counts(path):
    """Reads how often each class occurs.

    Args:
      path: an .npy file with numbers `[N]`; or a text in UTF-8 with one class
        on a line, "count" on each or "word count" on each. Words may have
        spaces within.

    Returns:
      The counts `[N]`, and the words, a list of N strs or None.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is no such file; names the line.
    """
    if _is_npy(path):
        return _checks.check_counts(read_array(path)), None
    counts, words = [], []
    for number, line in enumerate(_lines(path), 1):
        line = line.rstrip(_BLANKS)
        begin = 1 + max(line.rfind(" "), line.rfind("\t"))
        word, count = line[:begin].strip(_BLANKS), line[begin:]
        if number == 1:
            has_words = bool(word)
        elif has_words != bool(word):
            rule = "a word and a count" if has_words else "a count alone"
            raise ValueError(
                f"{path}, line {number} is {line!r}; it must be {rule}, as "
                "line 1 is"
            )
        try:
            counts.append(_number(count))
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number} is {line!r}; it must end with a count"
            ) from error
        words.append(word)
    counts = _checks.check_counts(counts)
    return counts, words if has_words else None


def read_paths(path):
    """Reads the path of each class, keys with a "/" between them, as tuples.

    Raises:
      OSError: the file cannot be read.
      ValueError: it is not a text in UTF-8, or a line is empty; names it.
    """
    paths = []
    for number, line in enumerate(_lines(path), 1):
        if not line:
            raise ValueError(
                f"{path}, line {number} is empty; it must be a path, such as "
                "animal/cat"
            )
        paths.append(tuple(line.split("/")))
    return paths


def read_array(path):
    """Reads an .npy file; a ValueError names it if it is something else."""
    if not _is_npy(path):
        raise ValueError(f"{path} is not an .npy file")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"{path} is no array that NumPy has saved, or is cut short: {error}"
        ) from error


def _is_npy(path):
    return os.fspath(path).endswith(".npy")


def _lines(path):
    """Returns the lines of a text, without empty ones at its end."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text in UTF-8: {error}") from error
    if lines == [""]:
        raise ValueError(f"{path} is empty; a tree has at least one class")
    return lines


def _number(text):
    try:
        return int(text)
    except ValueError:
        return float(text)
