"""Makes the files of a corpus: numbers its tokens, then chooses the classes."""

import collections
import dataclasses
import hashlib
import itertools
import json
import os

import numpy as np

from examples.common.progress import Progress
from examples.corpora import formats, splitters, texts

DTYPE = np.dtype("<i4")
HELD_OUT_EVERY = 20

_NUM_BLOCKS = 100
_LONGEST_LINE = 10_000  # tokens between which a text is not cut
_CHUNK = 1 << 22  # tokens in memory at once


@dataclasses.dataclass(frozen=True)
class _Document:
    """A range of the tokens of a corpus, which are in one part.

    If a longer document was cut behind this one, `closing` is the number of the
    token that the cut adds.
    """

    part: str
    name: str
    begin: int
    end: int
    closing: int | None = None


def make(options, source, folder):
    """Writes the files that `corpus.load` opens.

    Each token gets a number when it first occurs. One pass over the text writes
    these numbers to a file. The class ids follow from them, once the counts of
    all tokens are known.

    Args:
        options: The `corpus.Options`.
        source: The `texts.Source`.
        folder: An empty folder.

    Raises:
        ValueError: See `corpus.load`.
    """
    form = formats.FORMATS[source.format]
    name = form.tokens if options.tokens == "auto" else options.tokens
    splitter = splitters.named(name)
    path = folder / "numbers"
    with open(path, "wb") as file:
        words, documents = _number(options, source, form, splitter, file)
    if not path.stat().st_size:
        raise ValueError(f"--corpus={options.corpus} has no text.")
    numbers = np.memmap(path, DTYPE, "r")
    parts = _divide(documents, source.format, form, words, numbers)
    for part, pieces in parts.items():
        if not pieces:
            raise ValueError(
                f"--corpus={options.corpus} has too little text: the part "
                f"{part} is empty."
            )
    counts = np.zeros(len(words), np.int64)
    for chunk in _chunks(numbers, parts["train"]):
        counts += np.bincount(chunk, minlength=len(words))
    given = _vocabulary(options.vocabulary, splitter)
    if given is not None and form.boundary:
        given.add(form.boundary)
    chosen = _choose(options, words, counts, given)
    classes = sorted(chosen, key=lambda word: (-chosen[word], word))
    unknown = classes.index(formats.UNKNOWN)
    ids = {word: i for i, word in enumerate(classes)}
    class_of = np.array([ids.get(word, unknown) for word in words], DTYPE)

    digest = hashlib.sha256("\0".join(classes).encode())
    rates = {}
    for part, pieces in parts.items():
        num_unknown = num_tokens = 0
        digest.update(part.encode())
        with open(folder / part, "wb") as file:
            for chunk in _chunks(numbers, pieces):
                found = class_of[chunk]
                num_unknown += int((found == unknown).sum())
                num_tokens += len(found)
                digest.update(found.tobytes())
                file.write(found.tobytes())
        rates[part] = num_unknown / num_tokens
    os.remove(path)
    np.save(folder / "counts.npy", np.array([chosen[w] for w in classes]))
    about = {
        "unknown": unknown,
        "digest": digest.hexdigest(),
        "format": source.format,
        "tokens": name,
        "boundary": form.boundary,
        "unknown_rates": rates,
    }
    for file_name, value in ("words", classes), ("corpus", about):
        with open(folder / f"{file_name}.json", "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)


def _number(options, source, form, splitter, file):
    """Writes the numbers of all tokens; returns the tokens and `_Document`s."""
    numbers = collections.defaultdict(itertools.count().__next__)
    documents, position = [], 0
    progress = Progress("Reading", None, "tokens")
    for part, name, blocks in texts.documents(
        source, options.encoding, options.field
    ):
        begin = position
        for tokens in _tokens(blocks, splitter, form):
            ids = map(numbers.__getitem__, tokens)
            file.write(np.fromiter(ids, DTYPE, len(tokens)).data)
            position += len(tokens)
            progress.add(0, len(tokens))
        if position > begin:
            documents.append(_Document(part, name, begin, position))
    return list(numbers), documents


def _tokens(blocks, splitter, form):
    """Yields the tokens of a document, a list for each block of lines."""
    line_end = form.boundary if form.by_lines else None
    text = held_back = ""
    for block in blocks:
        text = held_back + block
        # A line break and the indentation behind it are one token.
        held_back = "\n" if text.endswith("\n") and not form.by_lines else ""
        yield splitter.split(text.removesuffix(held_back), line_end)
    ends_early = form.by_lines and not text.endswith("\n")
    if text and form.boundary and (ends_early or not form.by_lines):
        yield [form.boundary]


def _divide(documents, format_name, form, words, numbers):
    """Returns `{part: [_Document]}` for `train`, `valid` and `test`."""
    if any(d.part for d in documents):
        return {
            part: [d for d in documents if d.part == part]
            for part in formats.PARTS
        }
    ends_line = np.array(
        [
            word == form.boundary if form.by_lines else word.startswith("\n")
            for word in words
        ]
    )
    closing = None if form.by_lines else form.boundary
    closing = words.index(closing) if closing else None
    cut = (numbers, ends_line, int(form.by_lines), closing)
    if format_name == "text8":
        blocks = _blocks(documents, HELD_OUT_EVERY, *cut)
        return {
            "train": blocks[:-2],
            "valid": blocks[-2:-1],
            "test": blocks[-1:],
        }
    if len(documents) < HELD_OUT_EVERY:
        documents = _blocks(documents, _NUM_BLOCKS, *cut)
    order = sorted(
        documents, key=lambda d: hashlib.sha256(os.fsencode(d.name)).digest()
    )
    valid = set(order[::HELD_OUT_EVERY])
    test = set(order[HELD_OUT_EVERY // 2 :: HELD_OUT_EVERY])
    held_out = valid | test
    return {
        "train": [d for d in documents if d not in held_out],
        "valid": [d for d in documents if d in valid],
        "test": [d for d in documents if d in test],
    }


def _blocks(documents, num_blocks, numbers, ends_line, offset, closing):
    """Cuts documents into about `num_blocks` smaller ones, between lines."""
    result = []
    for document in documents:
        size = document.end - document.begin
        num = max(1, round(num_blocks * size / len(numbers)))
        bounds = {document.begin, document.end}
        for i in range(1, num):
            place = document.begin + size * i // num
            stop = min(place + _LONGEST_LINE, document.end)
            found = np.flatnonzero(ends_line[numbers[place:stop]])
            bounds.add(place + int(found[0]) + offset if len(found) else place)
        for i, (begin, end) in enumerate(itertools.pairwise(sorted(bounds))):
            name = f"{document.name} block {i}"
            last = None if end == document.end else closing
            result.append(_Document(document.part, name, begin, end, last))
    return result


def _chunks(numbers, documents):
    for document in documents:
        for begin in range(document.begin, document.end, _CHUNK):
            yield numbers[begin : min(begin + _CHUNK, document.end)]
        if document.closing is not None:
            yield np.array([document.closing], DTYPE)


def _choose(options, words, counts, given):
    """Returns the count of each class, a dict; `UNKNOWN` is one of them."""
    pairs = zip(words, counts.tolist(), strict=True)
    if given is None:
        pairs = [(w, n) for w, n in pairs if n >= options.min_count]
        pairs = [pair for pair in pairs if pair[0] != formats.UNKNOWN]
        if options.max_classes:
            pairs.sort(key=lambda pair: (-pair[1], pair[0]))
            del pairs[options.max_classes - 1 :]
        chosen = dict(pairs)
    else:
        chosen = dict.fromkeys(given - {formats.UNKNOWN}, 0)
        chosen |= {w: n for w, n in pairs if w in chosen}
    chosen[formats.UNKNOWN] = int(counts.sum()) - sum(chosen.values())
    if not chosen[formats.UNKNOWN] and given is None:
        raise ValueError(
            "No word of the training text is seen fewer than "
            f"{options.min_count} times, so that {formats.UNKNOWN} would never "
            "be trained: give more text or a larger --min_count."
        )
    return chosen


def _vocabulary(path, splitter):
    """The words of a file or of the splitter, a set; None if there is none."""
    if not path:
        words = splitter.vocabulary
        return None if words is None else set(words)
    try:
        with open(path, encoding="utf-8-sig") as file:
            words = {line.split()[0] for line in file if line.strip()}
    except UnicodeError as error:
        raise ValueError(
            f"--vocabulary={path} is not UTF-8 text: {error}"
        ) from None
    if not words:
        raise ValueError(f"--vocabulary={path} has no words.")
    return words
