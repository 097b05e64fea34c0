"""The published forms of corpora, and how file names tell them apart."""

import dataclasses
import os
import re

UNKNOWN = "<unk>"
END_OF_DOCUMENT = "<eof>"
END_OF_LINE = "<eos>"
END_OF_SENTENCE = "</S>"
ENDS_OF_LINES = (END_OF_LINE, END_OF_SENTENCE)
PARTS = ("train", "valid", "test")


@dataclasses.dataclass(frozen=True)
class Format:
    """A form of corpus.

    Attributes:
        about: The help text.
        boundary: The token after each line or document; None: there is none.
        by_lines: Whether the boundary follows each line.
        tokens: The splitter, if the user names none.
    """

    about: str
    boundary: str | None
    by_lines: bool
    tokens: str


def _texts(about):
    return Format(f"{about}; <eos> after each text", END_OF_LINE, True, "code")


FORMATS = {
    "documents": Format(
        "files of running text or code; <eof> after each",
        END_OF_DOCUMENT,
        False,
        "code",
    ),
    "lines": Format(
        "a sentence a line, as EuroParl has; <eos> after each",
        END_OF_LINE,
        True,
        "code",
    ),
    "text8": Format(
        "one line of words; the first 90% are trained on, 5% validate, 5% test",
        None,
        False,
        "words",
    ),
    "parts": Format(
        "a folder with files train, valid and test, as WikiText and the Penn "
        "Treebank have; <eos> after each line",
        END_OF_LINE,
        True,
        "words",
    ),
    "one_billion_words": Format(
        "the benchmark's shards, a sentence a line; </S> after each",
        END_OF_SENTENCE,
        True,
        "words",
    ),
    "tfrecord": _texts("files of tf.train.Example"),
    "tf_data": _texts("a folder that tf.data.Dataset.save wrote"),
    "hugging_face": _texts("a data set of the library datasets"),
}
DATA_SETS = ("tfrecord", "tf_data", "hugging_face")

_TRAINING_SHARD = re.compile(r"news\.en-\d{5}-of-\d{5}")
_HELD_OUT_SHARD = re.compile(r"news\.en\.heldout-(\d{5})-of-\d{5}")
_EUROPARL = re.compile(r"europarl-v\d+\.[\w-]+\.(\w+)")
_PART_NAMES = {
    "train": re.compile(r"(^|[._-])train(ing)?($|[._-])"),
    "valid": re.compile(r"(^|[._-])(valid|validation|val|dev)($|[._-])"),
    "test": re.compile(r"(^|[._-])test($|[._-])"),
}
_FEW_FILES = 10


def recognise(corpus, paths, beginning):
    """Returns the name of the format of some files.

    Args:
        corpus: The path that the user gave.
        paths: The files, by their names within the corpus.
        beginning: A function that returns the first characters of a file.
    """
    if os.path.isdir(corpus):
        names = set(os.listdir(corpus))
        if names >= {"dataset_spec.pb", "snapshot.metadata"}:
            return "tf_data"
        if names & {"dataset_dict.json", "dataset_info.json"}:
            return "hugging_face"
    if all(re.search(r"\.tfrecords?\b", name) for name in paths):
        return "tfrecord"
    if any(_TRAINING_SHARD.search(name) for name in paths):
        return "one_billion_words"
    if all(_EUROPARL.search(name) for name in paths):
        return "lines"
    if len(paths) > 1:
        parts = _parts(paths)
        found = sum(map(bool, parts.values()))
        # If a few files lack a part, the user learns of it.
        is_divided = found == 3 or (found == 2 and len(paths) <= _FEW_FILES)
        return "parts" if parts["train"] and is_divided else "documents"
    (path,) = paths.values()
    text = beginning(path).rstrip("\n")
    is_line_of_words = re.fullmatch("[a-z0-9 ]{1000,}", text) and " " in text
    return "text8" if is_line_of_words else "documents"


def parts_of(name, corpus, paths):
    """Returns the files of each part, `{part: {name: path}}`.

    The part "" has the files that are not divided yet.

    Args:
        name: The name of the format.
        corpus: The path that the user gave, for the message.
        paths: The files, by their names within the corpus.

    Raises:
        ValueError: Files of a part are missing, or there are several texts.
    """
    if name not in ("one_billion_words", "parts"):
        languages = {match[1] for n in paths if (match := _EUROPARL.search(n))}
        if len(languages) > 1:
            raise ValueError(
                f"--corpus={corpus} has files in {len(languages)} languages, "
                f"{', '.join(sorted(languages))}: give one of them."
            )
        return {"": paths}
    result = _parts(paths) if name == "parts" else _shards(paths)
    for part, files in result.items():
        if not files:
            raise ValueError(
                f"--corpus={corpus} --format={name}: there is no file of the "
                f"{part} part among {len(paths)}. --format=documents divides "
                "all files anew."
            )
    return result


def _shards(paths):
    """All training shards; held-out shard 1 to validate, 0 to test.

    Published perplexities are of shard 0 (Jozefowicz et al., 2016, arXiv
    1602.02410).
    """
    result = {part: {} for part in PARTS}
    for name, path in paths.items():
        held_out = _HELD_OUT_SHARD.search(name)
        number = held_out[1] if held_out else None
        part = {"00000": "test", "00001": "valid"}.get(number)
        if part:
            result[part][name] = path
        elif _TRAINING_SHARD.search(name):
            result["train"][name] = path
    return result


def _parts(paths):
    """The files of the top folder whose names name exactly one part."""
    result = {part: {} for part in PARTS}
    for name, path in paths.items():
        found = [part for part, p in _PART_NAMES.items() if p.search(name)]
        if len(found) == 1 and "/" not in name:
            result[found[0]][name] = path
    return result
