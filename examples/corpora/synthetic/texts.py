"""Texts of published size and known entropy, made on the spot.

`write("text8", folder)` makes what the real text8 is in size: 100,000,000
characters in one line, some 17,005,207 words, some 253,854 of them different;
of these, 44,370 occur more than 10 times in the first 99 %. `"1bw"` makes the
files of the One Billion Word Benchmark (Chelba et al., 2013): 768,648,884 words
in 99 files to train on, some 2,425,337 of them different, of which 793,468
occur more than twice, and 50 files held out. `"billion"` is the same with
1,000,000,000 words to train on. `"text8:0.01"` is a hundredth of it.

The words are drawn by `class_chain`, so that their entropy is known: a file
`entropy.json` beside the text says what perplexity a model can reach.
"""

import dataclasses
import fcntl
import json
import os
import pathlib
import shutil
from typing import NamedTuple

from examples.corpora.synthetic import class_chain, drawing
from examples.corpora.synthetic import report as synthetic_report

REPORT = "entropy.json"
_MIN_FRACTION = 1e-4
# Raised with each change of what is written for the same name and seed.
_VERSION = 1

_NEWS_FOLDER = "{}-monolingual.tokenized.shuffled"


@dataclasses.dataclass(frozen=True)
class _Size:
    """A whole text.

    Attributes:
        law: of its words.
        letters: as for `pseudo_words.Spellings`.
        words: to train on.
        characters: of a text in one line; None for the files of 1bw.
        held_out_words: of each held-out file of 1bw.
    """

    law: class_chain.Law
    letters: float
    words: int
    characters: int | None = None
    held_out_words: int | None = None


# The constants of the laws, and the letters, are solved for the published
# numbers: the share of the most frequent word (0.0624 in text8, some 0.049 in
# 1bw), the different words, those above a count, and the bytes.
_NEWS = _Size(
    class_chain.Law(6_601_984, exponent=1.46868, shift=8.3414, end=1 / 25.367),
    letters=2.915,
    words=768_648_884,
    held_out_words=153_583,
)
_SIZES = {
    "text8": _Size(
        class_chain.Law(292_096, exponent=1.24005, shift=2.9922),
        letters=3.184,
        words=17_005_207,
        characters=100_000_000,
    ),
    "1bw": _NEWS,
    "billion": dataclasses.replace(_NEWS, words=1_000_000_000),
}
NAMES = tuple(_SIZES)


class Written(NamedTuple):
    """A whole text.

    Attributes:
        path: the file `text8`, or the folder that has the two folders of 1bw.
        report: the file of `REPORT`.
    """

    path: pathlib.Path
    report: pathlib.Path


def write(name, folder, seed=1, threads=None, log=print):
    """Writes a text, unless it is there.

    It depends on the name and the seed alone, not on the threads. It gets a
    folder of its own within `folder`, which has its name when the text is
    whole, and not before: what is killed leaves a folder `*.partial`, which the
    next call replaces. A second process waits for the first.

    Args:
        name: one of `NAMES`, and a fraction if wanted: "text8:0.01".
        folder: made if it is not there.
        seed: of the chain and the text.
        threads: that draw words; the number of processors by default.
        log: called with lines on the progress.

    Returns:
        A `Written`.

    Raises:
        ValueError: there is no such name or fraction.
        OSError: the disk has too little space, or the folder's name is taken.
    """
    base, fraction = _parse(name)
    size = _SIZES[base]
    sections = (_one_line if size.characters else _news)(size, fraction)
    parameters = {
        "name": base,
        "fraction": fraction,
        "seed": seed,
        "version": _VERSION,
        **dataclasses.asdict(size),
    }
    parent = pathlib.Path(folder)
    parent.mkdir(parents=True, exist_ok=True)
    of_whole = "" if fraction == 1 else f"-{fraction}"
    target = parent / f"synthetic-{base}{of_whole}-seed{seed}"
    with open(parent / f".{target.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_whole(target, parameters):
            partial = parent / f"{target.name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            _check_space(parent, sections)
            log(f"Writing synthetic:{name} to {target}")
            _write(size, sections, seed, parameters, partial, threads, log)
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
    path = target / sections[0].file if size.characters else target
    return Written(path, target / REPORT)


def _parse(name):
    """Returns the name of the size, and the fraction of it."""
    base, colon, fraction = name.partition(":")
    try:
        value = float(fraction) if colon else 1.0
        if base in _SIZES and _MIN_FRACTION <= value <= 1:
            return base, value
    except ValueError:
        pass
    raise ValueError(
        f"--corpus=synthetic:{name}: there is no such text. The names are "
        f"{', '.join(NAMES)}, each with a fraction from {_MIN_FRACTION:g} to 1 "
        "if wanted, as in synthetic:text8:0.01."
    )


def _one_line(size, fraction):
    """The sections of a text in one line: 100 of the same size.

    The last tenth is held out, one half for validation, one for the test.
    """
    characters = round(size.characters * fraction)
    # Enough words: the characters of some vary by much less than these.
    words = int(size.words * fraction / 100 * 1.05) + 100
    return [
        drawing.Section(
            file="text8",
            part="train" if i < 90 else "valid" if i < 95 else "test",
            words=words,
            stop=characters * (i + 1) // 100,
        )
        for i in range(100)
    ]


def _news(size, fraction):
    """The sections of 1bw: its files.

    The first held-out file is the test's, as is usual, the others are for
    validation.
    """
    words = round(size.words * fraction)
    train = [
        drawing.Section(
            file=f"{_NEWS_FOLDER.format('training')}/news.en-{i:05}-of-00100",
            part="train",
            words=words * i // 99 - words * (i - 1) // 99,
        )
        for i in range(1, 100)
    ]
    held_out = [
        drawing.Section(
            file=f"{_NEWS_FOLDER.format('heldout')}/"
            f"news.en.heldout-{i:05}-of-00050",
            part="valid" if i else "test",
            words=max(1, round(size.held_out_words * fraction)),
        )
        for i in range(50)
    ]
    return train + held_out


def _is_whole(target, parameters):
    """Whether a folder has the text; what else stands there is not replaced."""
    if not target.exists():
        return False
    try:
        report = json.loads((target / REPORT).read_text())
        same = report["parameters"] == parameters
        files = report["files"].items()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileExistsError(
            f"{target} is there without the {REPORT} of a synthetic text: "
            "remove it, or name another folder."
        ) from error
    return same and all(
        (target / name).is_file() and (target / name).stat().st_size == size
        for name, size in files
    )


def _check_space(folder, sections):
    words = sum(section.words for section in sections)
    needed = sections[-1].stop or 5.5 * words
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            f"{folder} has {free / 1e9:.1f} GB free, and the text takes "
            f"{needed / 1e9:.1f} GB: name another folder, or ask for a "
            "fraction, as in synthetic:1bw:0.1."
        )


def _write(size, sections, seed, parameters, folder, threads, log):
    """Writes the files of a text and its report."""
    source = drawing.Source(size.law, size.letters, seed)
    tallies, counts = drawing.write(
        source, sections, folder, threads or os.cpu_count(), log
    )
    files = dict.fromkeys(section.file for section in sections)
    report = {
        "parameters": parameters,
        "files": {name: (folder / name).stat().st_size for name in files},
        **synthetic_report.make(source.chain, sections, tallies, counts),
    }
    (folder / REPORT).write_text(f"{json.dumps(report, indent=1)}\n")
