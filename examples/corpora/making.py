"""Makes the files of a corpus from its texts, in two passes."""

import hashlib
import itertools
import json
import os

import numpy as np

from examples.common.progress import Progress
from examples.corpora import (
    counting,
    data_sets,
    encoding,
    formats,
    pieces,
    reading,
    unpacking,
    vocabulary,
    workers,
)

HELD_OUT_EVERY = 20

_NUM_BLOCKS = 100
_CHUNK = 8 << 20
_WORTH_PROCESSES = 32 << 20
_UNPACKED = "unpacked-"


def make(options, source, rules, num_processes, folder):
    """Writes the files that `corpus.load` opens.

    Args:
        options: `corpus.Options`.
        source: a `sources.Source`.
        rules: `reading.Rules`.
        num_processes: how many read; None: chosen by the size.
        folder: an empty one.

    Raises:
        OSError: there is no room.
        ValueError: see `corpus.load`.
    """
    state = source.state()
    documents = _divide(_documents(options, source, folder), source, rules)
    chunks = [
        (part, chunk)
        for part in formats.PARTS
        for chunk in pieces.chunks(documents[part], _CHUNK, rules.by_lines)
    ]
    if num_processes is None:
        size = sum(d.size for part in documents.values() for d in part)
        is_small = size < _WORTH_PROCESSES
        num_processes = 1 if is_small else workers.num_processors()

    tally = counting.Tally(folder)
    sizes = _count(chunks, rules, num_processes, tally)
    num_tokens = dict.fromkeys(formats.PARTS, 0)
    for (part, _), size in zip(chunks, sizes, strict=True):
        num_tokens[part] += size
    _check_sizes(options.corpus, num_tokens)

    counts = vocabulary.choose(options, rules, tally, num_tokens["train"])
    words = sorted(counts, key=lambda word: (-counts[word], word))
    unknown = words.index(formats.UNKNOWN)
    with open(folder / "words.json", "w", encoding="utf-8") as file:
        json.dump(words, file)
    np.save(
        folder / "counts.npy", np.array([counts[w] for w in words], np.int64)
    )

    for part, n in num_tokens.items():
        with open(folder / part, "wb") as file:
            file.truncate(n * encoding.DTYPE.itemsize)
    start = rules, folder / "words.json", unknown
    num_unknown = _encode(chunks, sizes, start, num_processes, folder)
    about = {
        "unknown": unknown,
        "digest": _digest(folder, words),
        "format": source.format,
        "tokens": rules.tokens,
        "boundary": rules.boundary,
        "unknown_rates": {
            part: num_unknown[part] / num_tokens[part] for part in formats.PARTS
        },
    }
    if source.state() != state:
        raise OSError(
            f"--corpus={options.corpus} changed while it was read: begin again."
        )
    with open(folder / "corpus.json", "w", encoding="utf-8") as file:
        json.dump(about, file, indent=1)
    for path in folder.glob(f"{_UNPACKED}*"):
        path.unlink()


def _documents(options, source, folder):
    """Returns `{part: [Document]}`, whose files are plain text in UTF-8."""
    if source.texts:
        return {"": _written(source.texts(), folder)}
    if source.format in formats.DATA_SETS:
        return _data_set(options, source, folder)
    result = {}
    packed = [
        path
        for files in source.parts.values()
        for path in files.values()
        if not unpacking.is_plain(path, options.encoding)
    ]
    progress = Progress(f"Unpacking {len(packed)} files", None, "bytes")
    new_names = itertools.count()
    for part, files in source.parts.items():
        result[part] = []
        for name, path in files.items():
            plain = path
            if path in packed:
                plain = str(folder / f"{_UNPACKED}{next(new_names)}")
                with open(plain, "wb") as output:
                    for done in unpacking.unpack(
                        path, options.encoding, output
                    ):
                        progress.add(0, done)
            result[part].append(
                pieces.Document(
                    name,
                    plain,
                    unpacking.text_begin(plain),
                    os.path.getsize(plain),
                )
            )
    progress.end()
    return result


def _written(texts, folder):
    """Writes texts to one file; returns their `Document`s."""
    path = folder / f"{_UNPACKED}texts"
    result = []
    progress = Progress("Reading", None, "bytes")
    with open(path, "wb") as output:
        for name, text in texts:
            begin = output.tell()
            progress.add(0, output.write(text.encode()))
            result.append(
                pieces.Document(name, str(path), begin, output.tell())
            )
    progress.end()
    return result


def _data_set(options, source, folder):
    """Writes the texts of a data set, a line or more each, to a file a part."""
    progress = Progress("Reading the data set", None, "texts")
    files = {}
    try:
        for part, text in data_sets.texts(source, options):
            if part not in files:
                path = folder / f"{_UNPACKED}{part}"
                files[part] = open(path, "w", encoding="utf-8")  # noqa: SIM115
            files[part].write(text + "\n")
            progress.add(0, 1)
    finally:
        for file in files.values():
            file.close()
    progress.end()
    return {
        part: [pieces.Document(part, file.name, 0, os.path.getsize(file.name))]
        for part, file in files.items()
    }


def _divide(parts, source, rules):
    """Returns `{part: [Document]}` for `train`, `valid` and `test`."""
    if set(parts) != {""}:
        return {part: parts.get(part, []) for part in formats.PARTS}
    documents = [d for d in parts[""] if d.size]
    if source.format == "text8":
        blocks = pieces.blocks(documents, HELD_OUT_EVERY, rules.by_lines)
        return {
            "train": blocks[:-2],
            "valid": blocks[-2:-1],
            "test": blocks[-1:],
        }
    if len(documents) < HELD_OUT_EVERY:
        documents = pieces.blocks(documents, _NUM_BLOCKS, rules.by_lines)
    order = sorted(
        documents,
        key=lambda d: hashlib.sha256(os.fsencode(d.name)).digest(),
    )
    valid = set(order[::HELD_OUT_EVERY])
    test = set(order[HELD_OUT_EVERY // 2 :: HELD_OUT_EVERY])
    return {
        "train": [d for d in documents if d not in valid | test],
        "valid": [d for d in documents if d in valid],
        "test": [d for d in documents if d in test],
    }


def _count(chunks, rules, num_processes, tally):
    """Counts the tokens of each chunk, and those of `train` in `tally`."""
    sizes = []
    progress = Progress("Counting", _num_bytes(chunks), "tokens")
    with workers.mapping(counting.start, [rules], num_processes) as run:
        counted = run(counting.count, [chunk for _, chunk in chunks])
        try:
            for chunk, (size, counts) in zip(chunks, counted, strict=True):
                sizes.append(size)
                if chunk[0] == "train":
                    tally.add(counts)
                progress.add(_num_bytes([chunk]), size)
        except reading.NotTextError as error:
            unpacking.refuse(*error.args)
    progress.end()
    return sizes


def _encode(chunks, sizes, start, num_processes, folder):
    """Writes the class ids; returns how many of each part are unknown."""
    tasks, firsts = [], dict.fromkeys(formats.PARTS, 0)
    for (part, chunk), size in zip(chunks, sizes, strict=True):
        tasks.append((chunk, folder / part, firsts[part], size))
        firsts[part] += size
    num_unknown = dict.fromkeys(formats.PARTS, 0)
    progress = Progress("Writing class ids", _num_bytes(chunks), "tokens")
    with workers.mapping(encoding.start, start, num_processes) as run:
        encoded = run(encoding.encode, tasks)
        for chunk, size, n in zip(chunks, sizes, encoded, strict=True):
            num_unknown[chunk[0]] += n
            progress.add(_num_bytes([chunk]), size)
    progress.end()
    return num_unknown


def _digest(folder, words):
    """A hexadecimal number that differs where words or class ids do."""
    digest = hashlib.sha256("\0".join(words).encode())
    for part in formats.PARTS:
        digest.update(part.encode())
        with open(folder / part, "rb") as file:
            while data := file.read(_CHUNK):
                digest.update(data)
    return digest.hexdigest()


def _num_bytes(chunks):
    return sum(span.end - span.begin for _, chunk in chunks for span in chunk)


def _check_sizes(corpus, num_tokens):
    if not any(num_tokens.values()):
        raise ValueError(f"--corpus={corpus} has no text.")
    for part, n in num_tokens.items():
        if not n:
            raise ValueError(
                f"--corpus={corpus} has too little text: the part {part} is "
                "empty."
            )
