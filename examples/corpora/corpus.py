"""Text to class ids: the vocabulary, the parts, files of ids.

A corpus has three parts: `train`, `valid`, by which flags are chosen, and
`test`, by which nothing is chosen. One document in 20 is in `valid` and one in
`test`, by a hash of its name. A text of fewer than 20 files is cut into 100
documents. Nothing is de-duplicated. Only `train` makes the vocabulary and the
unigram counts.
"""

import codecs
import collections
import dataclasses
import hashlib
import itertools
import os

import numpy as np

from examples.common import settings
from examples.common.progress import Progress
from examples.common.settings import setting
from examples.corpora import formats, splitters, texts

_HELD_OUT_EVERY = 20
_NUM_BLOCKS = 100
_LONGEST_LINE = 10_000  # tokens between which a text is not cut
_BREAK = "\n"


@dataclasses.dataclass(frozen=True)
class Options:
    """How a corpus is read; each field is a flag."""

    corpus: str = setting(
        texts.STDLIB,
        "The text: a file, a folder (all its files but hidden ones), a pattern "
        "of files in quotation marks, or stdlib, the source of Python's "
        "standard library. gzip, bzip2 or xz may have packed the files.",
    )
    format: str = setting(
        "documents",
        "documents: files of running text or code, <eof> after each. lines: a "
        "sentence a line, <eos> after each. One document in "
        f"{_HELD_OUT_EVERY} validates and one tests.",
        choices=tuple(formats.BOUNDARIES),
    )
    tokens: str = setting(
        "code",
        "words: what white space separates. code: words, punctuation marks "
        "and, in documents, line breaks with the indentation of the next line.",
        choices=tuple(splitters.SPLITTERS),
    )
    encoding: str = setting(
        "utf-8", "Encoding of the text, such as utf-16 or cp1251."
    )
    min_count: int = setting(
        2,
        "Words that the training text has fewer times become "
        f"{formats.UNKNOWN}.",
        least=1,
    )

    def __post_init__(self):
        """Raises `ValueError` that names the first bad flag."""
        settings.check(self)
        try:
            " ".encode(self.encoding)
            name = codecs.lookup(self.encoding).name
        except (LookupError, ValueError):
            raise ValueError(
                f"--encoding={self.encoding}: Python knows no such encoding of "
                "text."
            ) from None
        # One name for "utf8" and "UTF-8".
        object.__setattr__(self, "encoding", name)
        if self.corpus and self.corpus != texts.STDLIB:
            # A saved run may be opened in another folder.
            object.__setattr__(self, "corpus", os.path.abspath(self.corpus))


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Encoded text.

    Attributes:
        words: The class names, most frequent first; class 0 to N - 1.
        counts: `[N]` int64, occurrences of each class in `train`.
        train: `[num_train_tokens]` int32 class ids.
        valid: Class ids of the text to validate on.
        test: Class ids of the text to test on.
        unknown: The class of `<unk>`.
        digest: Hexadecimal, equal for equal text, parts and vocabulary.
        tokens: The name of the splitter.
        boundary: The token after each document or line.
        unknown_rates: The share of `<unk>` in each part.
    """

    words: tuple[str, ...]
    counts: np.ndarray
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    unknown: int
    digest: str
    tokens: str = "code"
    boundary: str = formats.END_OF_DOCUMENT
    unknown_rates: dict[str, float] = dataclasses.field(default_factory=dict)

    def unigram_perplexity(self, labels):
        """Returns the perplexity of the training frequencies, plus one each.

        Args:
            labels: Class ids of any shape, `<unk>` among them.
        """
        smoothed = self.counts + 1.0
        log_probs = np.log(smoothed / smoothed.sum())
        occurrences = np.bincount(np.ravel(labels), minlength=len(self.words))
        return float(np.exp(-(occurrences @ log_probs) / occurrences.sum()))

    def description(self):
        """Returns the sizes in a sentence or two."""
        sizes = ", ".join(
            f"{getattr(self, part).size:,} {part}" for part in formats.PARTS
        )
        rates = ", ".join(
            f"{rate:.1%} of {part}" for part, rate in self.unknown_rates.items()
        )
        return (
            f"Tokens: {sizes}; {len(self.words):,} classes. <unk> is {rates}."
        )


def load(options, trains_unknown=True):
    """Reads, divides and encodes a corpus; returns a `Corpus`.

    Args:
        options: The `Options`.
        trains_unknown: Whether a model learns `<unk>`, which then needs a rare
            word in the training text.

    Raises:
        OSError: There are no such files.
        ValueError: A file is no text in that encoding, there is too little
            text, or it has no rare word although `trains_unknown`.
    """
    words, documents = _read(options)
    if not documents:
        raise ValueError(f"--corpus={options.corpus} has no text.")
    if len(documents) < _HELD_OUT_EVERY:
        documents = _cut(documents, options, words)
    order = sorted(
        documents, key=lambda name: hashlib.sha256(os.fsencode(name)).digest()
    )
    part_of = dict.fromkeys(documents, "train")
    part_of |= dict.fromkeys(order[::_HELD_OUT_EVERY], "valid")
    part_of |= dict.fromkeys(
        order[_HELD_OUT_EVERY // 2 :: _HELD_OUT_EVERY], "test"
    )
    parts = {}
    for part in formats.PARTS:
        found = [
            ids for name, ids in documents.items() if part_of[name] == part
        ]
        if not found:
            raise ValueError(
                f"--corpus={options.corpus} has too little text: the part "
                f"{part} is empty."
            )
        parts[part] = np.concatenate(found)
    counts = np.bincount(parts["train"], minlength=len(words))
    chosen = _choose(options, words, counts)
    if trains_unknown and not chosen[formats.UNKNOWN]:
        raise ValueError(
            "No word of the training text is seen fewer than "
            f"{options.min_count} times, so that {formats.UNKNOWN} would never "
            "be trained: give more text or a larger --min_count."
        )
    classes = sorted(chosen, key=lambda word: (-chosen[word], word))
    unknown = classes.index(formats.UNKNOWN)
    class_of_word = {word: i for i, word in enumerate(classes)}
    class_of = np.array(
        [class_of_word.get(word, unknown) for word in words], np.int32
    )
    parts = {part: class_of[ids] for part, ids in parts.items()}
    digest = hashlib.sha256("\0".join(classes).encode())
    for part, ids in parts.items():
        digest.update(part.encode())
        digest.update(ids.tobytes())
    return Corpus(
        words=tuple(classes),
        counts=np.array([chosen[word] for word in classes]),
        **parts,
        unknown=unknown,
        digest=digest.hexdigest(),
        tokens=options.tokens,
        boundary=formats.BOUNDARIES[options.format],
        unknown_rates={
            part: float(np.mean(ids == unknown)) for part, ids in parts.items()
        },
    )


def _read(options):
    """Numbers the tokens in the order in which they first occur.

    Returns:
        The different tokens, a list; and a dict from the names of documents to
        the numbers of their tokens, int32.
    """
    numbers = collections.defaultdict(itertools.count().__next__)
    documents, progress = {}, Progress("Reading", None, "tokens")
    for name, path in texts.find(options.corpus).items():
        tokens = _tokens(texts.read(path, options.encoding), options)
        if tokens:
            ids = map(numbers.__getitem__, tokens)
            documents[name] = np.fromiter(ids, np.int32, len(tokens))
            progress.add(len(tokens))
    return list(numbers), documents


def _tokens(text, options):
    """Returns the tokens of a document, with those that end it or its lines."""
    splitter = splitters.SPLITTERS[options.tokens]
    boundary = formats.BOUNDARIES[options.format]
    if not text:
        return []
    if options.format == "documents":
        return [*splitter.split(text), boundary]
    return splitter.split(f"{text.removesuffix(_BREAK)}{_BREAK}", boundary)


def _cut(documents, options, words):
    """Cuts documents into about 100 smaller ones, between lines."""
    boundary = formats.BOUNDARIES[options.format]
    by_lines = options.format == "lines"
    ends_line = np.array(
        [w == boundary if by_lines else w.startswith(_BREAK) for w in words]
    )
    closing = [] if by_lines else [words.index(boundary)]
    total = sum(map(len, documents.values()))
    result = {}
    for name, ids in documents.items():
        num = max(1, round(_NUM_BLOCKS * len(ids) / total))
        bounds = {0, len(ids)}
        for i in range(1, num):
            place = len(ids) * i // num
            found = np.flatnonzero(
                ends_line[ids[place : place + _LONGEST_LINE]]
            )
            bounds.add(place + (int(found[0]) + by_lines if len(found) else 0))
        for i, (begin, end) in enumerate(itertools.pairwise(sorted(bounds))):
            piece = ids[begin:end]
            if end < len(ids):
                piece = np.append(piece, closing).astype(np.int32)
            result[f"{name} block {i}"] = piece
    return result


def _choose(options, words, counts):
    """Returns the count of each class, a dict; `UNKNOWN` is one of them."""
    chosen = {
        word: count
        for word, count in zip(words, counts.tolist(), strict=True)
        if count >= options.min_count and word != formats.UNKNOWN
    }
    chosen[formats.UNKNOWN] = int(counts.sum()) - sum(chosen.values())
    return chosen
