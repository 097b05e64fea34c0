"""Text to class ids: the vocabulary, the parts, files of ids.

A corpus has three parts: what is trained on, what training may look at to
choose (`valid`), and what nothing is chosen by (`test`). Where the files do not
say which is which, documents are divided: of every 20, one becomes part of
`valid` and one of `test`, by a hash of their names, so that the choice does not
change from run to run and no document is in two parts. Documents that resemble
each other can be: nothing is de-duplicated. Only `train` makes the vocabulary
and the unigram counts.

The text is read twice, once to count words and once to write class ids to
files, in several processes and in memory that does not grow with the text. The
files are kept and used again as long as the text stays the same.
"""

import dataclasses
import functools
import json
import os
import pathlib

import numpy as np

from examples.common import settings
from examples.corpora import (
    cache,
    encoding,
    formats,
    making,
    reading,
    sources,
    splitters,
)

_VERSION = 1  # of the files in the cache


@dataclasses.dataclass(frozen=True)
class Options:
    """How a corpus is read; a flag each, of the same name.

    Attributes:
        corpus: see `sources.find`.
        format: name of a format, or "auto".
        tokens: name of a splitter, or "auto": that of the format.
        encoding: of the text; a codec of Python.
        vocabulary: a file whose lines begin with the words that are classes;
            "": those of the training text, or of the splitter.
        min_count: words seen fewer times in `train` become `<unk>`.
        max_classes: the most frequent ones are kept, the others become
            `<unk>`; 0: all.
        field: of the texts in a data set.
    """

    corpus: str = "stdlib"
    format: str = "auto"
    tokens: str = "auto"
    encoding: str = "utf-8"
    vocabulary: str = ""
    min_count: int = 2
    max_classes: int = 0
    field: str = "text"

    def __post_init__(self):
        """Raises `ValueError` that names the first bad flag."""
        if self.format != "auto" and self.format not in formats.FORMATS:
            raise ValueError(
                f"--format={self.format}: must be auto or one of "
                f"{', '.join(formats.FORMATS)}."
            )
        if self.tokens != "auto":
            splitters.check(self.tokens)
        if self.min_count < 1:
            raise ValueError(
                f"--min_count={self.min_count}: must be at least 1."
            )
        if self.max_classes < 0 or self.max_classes == 1:
            raise ValueError(
                f"--max_classes={self.max_classes}: must be 0, for all, or at "
                "least 2."
            )
        # One name for "utf8" and "UTF-8".
        name = settings.encoding(self.encoding)
        object.__setattr__(self, "encoding", name)

    def text(self):
        """These alone, where a class of more settings has inherited them."""
        names = [field.name for field in dataclasses.fields(Options)]
        return Options(**{name: getattr(self, name) for name in names})


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Encoded text.

    Attributes:
        words: the class names, most frequent first; class 0 to N - 1.
        counts: `[N]` int64, occurrences of each class in `train`.
        train: `[num_train_tokens]` int32 class ids; a file in memory.
        valid: class ids of the text to validate on.
        test: class ids of the text to test on.
        unknown: the class of `<unk>`.
        digest: hexadecimal, equal for equal text, parts and vocabulary.
        format: name of the format.
        tokens: name of the splitter.
        boundary: the token after each document or line; None: there is none.
        unknown_rates: the share of `<unk>` in each part.
        folder: where the files are.
    """

    words: tuple[str, ...]
    counts: np.ndarray
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    unknown: int
    digest: str
    format: str = "documents"
    tokens: str = "code"
    boundary: str | None = formats.END_OF_DOCUMENT
    unknown_rates: dict[str, float] = dataclasses.field(default_factory=dict)
    folder: pathlib.Path | None = None

    def unigram_perplexity(self, labels):
        """Perplexity of the training frequencies, one added to each count.

        Args:
            labels: class ids of any shape, `<unk>` among them: the model is
                judged on the same tokens with the same `<unk>`.
        """
        smoothed = self.counts + 1.0
        log_probs = np.log(smoothed / smoothed.sum())
        occurrences = np.bincount(np.ravel(labels), minlength=len(self.words))
        return float(np.exp(-(occurrences @ log_probs) / occurrences.sum()))

    def description(self):
        """The sizes in a sentence or two."""
        sizes = ", ".join(
            f"{getattr(self, part).size:,} {part}" for part in formats.PARTS
        )
        rates = ", ".join(
            f"{rate:.1%} of {part}" for part, rate in self.unknown_rates.items()
        )
        return (
            f"Tokens: {sizes}; {len(self.words):,} classes. <unk> is {rates}. "
            f"Read as {self.format}, {self.tokens}."
        )


def load(options, cache_root=None, num_processes=None):
    """Reads, divides and encodes a corpus, or finds what an earlier call made.

    Words seen fewer than `min_count` times in `train` become `<unk>` there, and
    so do the words of the other parts that are no class. With 2, a word seen
    once stands for the words never seen: the model learns where an unknown word
    is likely from the text it has.

    Args:
        options: `Options`.
        cache_root: folder for the files of ids; `cache.default_root()` by
            default.
        num_processes: how many read; as many as processors by default, and one
            for a small text.

    Raises:
        OSError: there are no such files, or no room for those of ids.
        ValueError: a file is no text in that encoding, there is too little
            text, or it has no rare word.
    """
    options = options.text()
    root = cache.default_root() if cache_root is None else cache_root
    source = sources.find(options.corpus, options.format, root)
    form = formats.FORMATS[source.format]
    tokens = form.tokens if options.tokens == "auto" else options.tokens
    named_files = [options.vocabulary, tokens.partition(":")[2]]
    key = cache.key(
        [
            _VERSION,
            dataclasses.asdict(options),
            source.format,
            source.state(),
            [
                (name, status.st_size, status.st_mtime_ns)
                for name in filter(None, named_files)
                for status in [os.stat(name)]
            ],
        ]
    )
    make = functools.partial(
        making.make,
        options,
        source,
        reading.Rules(tokens, form.boundary, form.by_lines, source.is_strict),
        num_processes,
    )
    return _open(cache.made(root, f"{source.title}-{key}", make))


def _open(folder):
    """The `Corpus` whose files are in a folder."""
    with open(folder / "corpus.json", encoding="utf-8") as file:
        about = json.load(file)
    with open(folder / "words.json", encoding="utf-8") as file:
        words = tuple(json.load(file))
    return Corpus(
        words=words,
        counts=np.load(folder / "counts.npy"),
        **{
            part: np.memmap(folder / part, encoding.DTYPE, "r")
            for part in formats.PARTS
        },
        **about,
        folder=folder,
    )
