"""Text to class ids: the vocabulary, the parts, files of ids.

A corpus has three parts: `train`, `valid`, by which flags are chosen, and
`test`, by which nothing is chosen. If the files do not name the parts, one
document in 20 is in `valid` and one in `test`, by a hash of its name. A text of
fewer than 20 files is cut into 100 documents. Nothing is de-duplicated. Only
`train` makes the vocabulary and the unigram counts.

The text is read once. The files of class ids are in a cache, and are used again
as long as the text stays the same.
"""

import codecs
import dataclasses
import json
import os
import pathlib

import numpy as np

from examples.common import settings
from examples.common.settings import setting
from examples.corpora import cache, formats, making, splitters, texts

_VERSION = 2  # of the files in the cache


@dataclasses.dataclass(frozen=True)
class Options:
    """How a corpus is read; each field is a flag."""

    corpus: str = setting(
        "stdlib",
        "The text: a file, a folder (all its files but hidden ones), a pattern "
        "of files in quotation marks; stdlib or stdlib+tests, the source of "
        "Python's standard library; or hub:NAME or hub:NAME:CONFIG, a data set "
        "that the library datasets loads. gzip, bzip2 or xz may have packed "
        "the files.",
    )
    format: str = setting(
        "auto",
        "What the files are; auto: what their names and beginnings say. "
        + " ".join(f"{n}: {form.about}." for n, form in formats.FORMATS.items())
        + f" Without parts, one document in {making.HELD_OUT_EVERY} validates "
        "and one tests.",
        choices=("auto", *formats.FORMATS),
    )
    tokens: str = setting(
        "auto",
        "words: what white space separates. code: words, punctuation marks "
        "and, in documents, line breaks with the indentation of the next line. "
        f"{', '.join(f'{kind}:FILE' for kind in splitters.OF_A_FILE)}: the "
        "tokens of a model of that library. auto: what the format has.",
    )
    encoding: str = setting(
        "utf-8", "Encoding of the text, such as utf-16 or cp1251."
    )
    field: str = setting("text", "Name of the texts in a data set's examples.")
    vocabulary: str = setting(
        "",
        "File with a word at the beginning of each line: these words are the "
        f"classes, and {formats.UNKNOWN}. By default the classes are the words "
        "of the training text, or all tokens of --tokens=...:FILE.",
    )
    min_count: int = setting(
        2,
        "Words that the training text has fewer times become "
        f"{formats.UNKNOWN}.",
        least=1,
    )
    max_classes: int = setting(
        0, "The most frequent words that are classes; 0: all.", least=0
    )

    def __post_init__(self):
        """Raises `ValueError` that names the first bad flag."""
        settings.check(self)
        if self.tokens != "auto":
            splitters.check(self.tokens)
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
        if self.corpus and texts.is_path(self.corpus):
            # A saved run may be opened in another folder.
            object.__setattr__(self, "corpus", os.path.abspath(self.corpus))

    def text(self):
        """Returns these fields alone, without the fields of a derived class."""
        names = [field.name for field in dataclasses.fields(Options)]
        return Options(**{name: getattr(self, name) for name in names})


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Encoded text.

    Attributes:
        words: The class names, most frequent first; class 0 to N - 1.
        counts: `[N]` int64, occurrences of each class in `train`.
        train: `[num_train_tokens]` int32 class ids, a memory map.
        valid: Class ids of the text to validate on.
        test: Class ids of the text to test on.
        unknown: The class of `<unk>`.
        digest: Hexadecimal, equal for equal text, parts and vocabulary.
        format: The name of the format.
        tokens: The name of the splitter.
        boundary: The token after each document or line; None: there is none.
        unknown_rates: The share of `<unk>` in each part.
        folder: The folder of the files.
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
            f"Tokens: {sizes}; {len(self.words):,} classes. <unk> is {rates}. "
            f"Read as {self.format}, {self.tokens}."
        )


def load(options, cache_root=None):
    """Reads, divides and encodes a corpus, or opens what an earlier call made.

    Args:
        options: The `Options`.
        cache_root: The folder for the files of ids; `cache.default_root()` by
            default.

    Raises:
        OSError: There are no such files, or there is no room.
        ValueError: A file is no text in that encoding, there is too little
            text, or the text has no rare word.
    """
    options = options.text()
    source = texts.find(options.corpus, options.format)
    named_files = [options.vocabulary, options.tokens.partition(":")[2]]
    named_files = [os.stat(name) for name in named_files if name]
    key = cache.key(
        [
            _VERSION,
            dataclasses.asdict(options),
            source.state(),
            [(status.st_size, status.st_mtime_ns) for status in named_files],
        ]
    )
    title = os.path.basename(options.corpus).partition(".")[0]
    title = "".join(c if c.isascii() and c.isalnum() else "_" for c in title)
    folder = cache.made(
        cache.default_root() if cache_root is None else cache_root,
        f"{title[:40] or 'corpus'}-{key}",
        lambda folder: making.make(options, source, folder),
    )
    with open(folder / "corpus.json", encoding="utf-8") as file:
        about = json.load(file)
    with open(folder / "words.json", encoding="utf-8") as file:
        words = tuple(json.load(file))
    parts = {
        part: np.memmap(folder / part, making.DTYPE, "r")
        for part in formats.PARTS
    }
    return Corpus(
        words=words,
        counts=np.load(folder / "counts.npy"),
        **parts,
        **about,
        folder=folder,
    )
