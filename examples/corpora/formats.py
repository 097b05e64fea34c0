"""The published forms of corpora, and how one is known by its files."""

import dataclasses
import os
import re

from examples.corpora import unpacking

UNKNOWN = "<unk>"
END_OF_DOCUMENT = "<eof>"
END_OF_LINE = "<eos>"
END_OF_SENTENCE = "</S>"
ENDS_OF_LINES = (END_OF_LINE, END_OF_SENTENCE)
PARTS = ("train", "valid", "test")


@dataclasses.dataclass(frozen=True)
class Format:
    """What a form of corpus has in common.

    Attributes:
        about: what it is, for the help.
        boundary: the token after each line or document; None: there is none.
        by_lines: whether the boundary follows each line.
        tokens: the splitter if none is named.
    """

    about: str
    boundary: str | None
    by_lines: bool
    tokens: str


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
        "the benchmark's shards, a sentence a line; </S> after each, which is "
        "<S> of the next",
        END_OF_SENTENCE,
        True,
        "words",
    ),
    "tfrecord": Format(
        "files of tf.train.Example; <eos> after each text",
        END_OF_LINE,
        True,
        "code",
    ),
    "tf_data": Format(
        "a folder that tf.data.Dataset.save wrote; <eos> after each text",
        END_OF_LINE,
        True,
        "code",
    ),
    "hugging_face": Format(
        "a folder that save_to_disk of the library datasets wrote; <eos> after "
        "each text",
        END_OF_LINE,
        True,
        "code",
    ),
}
DATA_SETS = ("tfrecord", "tf_data", "hugging_face")

_TRAINING_SHARD = re.compile(r"news\.en-\d{5}-of-\d{5}")
_HELD_OUT_SHARD = re.compile(r"news\.en\.heldout-(\d{5})-of-\d{5}")
_EUROPARL = re.compile(r"europarl-v\d+\.[\w-]+\.(\w+)")
_PACKED = re.compile(r"\.(gz|bz2|xz|zst)$")
_PART_NAMES = {
    "train": re.compile(r"(^|[._-])train(ing)?($|[._-])"),
    "valid": re.compile(r"(^|[._-])(valid|validation|val|dev)($|[._-])"),
    "test": re.compile(r"(^|[._-])test($|[._-])"),
}
_LOOKED_AT = 1 << 20
_FEW_FILES = 10


def recognise(source, paths):
    """Returns the name of the format of a file, a folder or a list of files.

    Args:
        source: the path, or None if it was a pattern.
        paths: the files, by their names within the source.
    """
    if source is not None and os.path.isdir(source):
        names = set(os.listdir(source))
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
        if _parts(paths):
            return "parts"
        _refuse_half(source, paths)
        return "documents"
    ((_, path),) = paths.items()
    return "text8" if _is_one_line(path) else "documents"


def parts_of(name, source, paths):
    """Returns the files of each part, `{part: {name: path}}`.

    The part "" is to be divided by the caller.

    Args:
        name: of the format.
        source: as the user gave it, for the message.
        paths: the files, by their names within the source.

    Raises:
        ValueError: files that the format needs are missing.
    """
    if name == "one_billion_words":
        result = _shards(paths)
    elif name == "parts":
        result = _parts(paths)
        if len(result) > 1:
            raise ValueError(
                f"--corpus={source} has several texts in parts, such as "
                f"{' and '.join(sorted(result)[:2])}: give one of them by a "
                "pattern of its files."
            )
        (result,) = result.values() or [dict.fromkeys(PARTS, ())]
    else:
        languages = {match[1] for n in paths if (match := _EUROPARL.search(n))}
        if len(languages) > 1:
            raise ValueError(
                f"--corpus={source} has files in {len(languages)} languages, "
                f"{', '.join(sorted(languages))}: give one of them."
            )
        if name == "text8" and len(paths) > 1:
            raise ValueError(
                f"--corpus={source} has {len(paths)} files: text8 is one."
            )
        return {"": paths}
    for part, files in result.items():
        if not files:
            raise ValueError(
                f"--corpus={source} --format={name}: there is no file of the "
                f"{part} part among {len(paths)}."
            )
    return result


def _shards(paths):
    """All training shards; held-out shard 1 to validate, 0 to test.

    Shard 0 is the one whose perplexity is published (Jozefowicz et al., 2016,
    arXiv 1602.02410).
    """
    result = {part: {} for part in PARTS}
    for name, path in paths.items():
        held_out = _HELD_OUT_SHARD.search(name)
        if held_out:
            part = {"00000": "test", "00001": "valid"}.get(held_out[1])
            if part:
                result[part][name] = path
        elif _TRAINING_SHARD.search(name):
            result["train"][name] = path
    return result


def _parts(paths):
    """The texts that have all three parts.

    Returns:
        `{pattern: {part: {name: path}}}`: of a text, the names of the files
        differ by the name of their part and by numbers alone.
    """
    result = {}
    for part, pattern in _PART_NAMES.items():
        for name, path in paths.items():
            plain = _PACKED.sub("", name)
            if "/" not in name and pattern.search(plain):
                of_text = re.sub(r"\d+", "#", pattern.sub("*", plain, count=1))
                result.setdefault(of_text, {}).setdefault(part, {})[name] = path
    return {
        of_text: parts
        for of_text, parts in result.items()
        if len(parts) == len(PARTS)
    }


def _refuse_half(source, paths):
    """Raises `ValueError` if few files are a text that lacks a part."""
    if len(paths) > _FEW_FILES:
        return
    found = {
        part
        for part, pattern in _PART_NAMES.items()
        if any(pattern.search(_PACKED.sub("", name)) for name in paths)
    }
    if "train" in found and len(found) == 2:
        (missing,) = set(PARTS) - found
        raise ValueError(
            f"--corpus={source} has files named {' and '.join(sorted(found))}, "
            f"and none named {missing}: add it, or pass --format=documents to "
            "divide them all anew."
        )


def _is_one_line(path):
    """Whether a file begins with a long line of words, as text8 does."""
    data = unpacking.beginning(path, _LOOKED_AT)
    # Text8 ends without a line break; one made by hand may have one.
    return (
        len(data) > 1000
        and b"\n" not in data.rstrip(b"\n")
        and b" " in data
        and not data.translate(None, b"abcdefghijklmnopqrstuvwxyz \n")
    )
