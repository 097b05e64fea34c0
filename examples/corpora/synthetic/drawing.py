"""Writes files of drawn words."""

import collections
import concurrent.futures
import dataclasses
import itertools
import math
import time

import numpy as np

from examples.corpora.synthetic import class_chain, pseudo_words

_BLOCK_WORDS = 1 << 18  # drawn at once; their arrays take some 25 MB
_SECONDS_BETWEEN_LINES = 5
_ONE = np.int32(1)  # of the type of the counts, which is 30 times as fast


class Source:
    """What a text is drawn from.

    Attributes:
        chain: the `ClassChain`.
        spellings: the `Spellings` of its words.
    """

    def __init__(self, law, letters, seed):
        """Makes the chain and the spellings; see there."""
        self.chain = class_chain.ClassChain(law, seed)
        self.spellings = pseudo_words.Spellings(law.num_words, letters)
        self._seed = seed

    def draw(self, section, block, count):
        """Returns `Words`, their text and where each stops in it.

        Args:
            section: its number.
            block: the number of the block in the section.
            count: words of the block.
        """
        rng = np.random.default_rng([self._seed, section, block])
        words = self.chain.draw(rng, count)
        return words, *self.spellings.write(words.ranks, words.ends)


@dataclasses.dataclass(frozen=True)
class Section:
    """Adjacent words of one file.

    The first word, and the first of each block of `_BLOCK_WORDS`, is drawn as
    if none were before; a sentence ends there.

    Attributes:
        file: path within the folder.
        part: "train", "valid" or "test".
        words: how many; with `stop`, more than are needed to reach it.
        stop: where the section ends in the file, in characters: its last word
            ends there, or the next one would not fit. None for no such bound.
    """

    file: str
    part: str
    words: int
    stop: int | None = None


@dataclasses.dataclass
class Tally:
    """What was written of a section.

    Attributes:
        words: how many.
        lines: how many ends of lines.
        characters: of all words and what separates them.
        nats: log 1/P of words and ends of lines.
    """

    words: int = 0
    lines: int = 0
    characters: int = 0
    nats: float = 0.0


def write(source, sections, folder, threads, log):
    """Writes the files.

    Args:
        source: the `Source`.
        sections: list of `Section`, those of a file together.
        folder: a `pathlib.Path`.
        threads: that draw; the text is the same for any number.
        log: called with a line on the progress from time to time.

    Returns:
        The `Tally` of each section, and of each part the counts of the words,
        `[V]` int32.
    """
    tallies = [Tally() for _ in sections]
    counts = {
        section.part: np.zeros(source.chain.law.num_words, np.int32)
        for section in sections
    }
    progress = _Progress(sum(section.words for section in sections), log)
    blocks = _draw_ahead(source, sections, threads)
    for name, of_file in itertools.groupby(
        blocks, key=lambda block: sections[block[0]].file
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            for i, (words, text, stops) in of_file:
                count = stops.size
                if sections[i].stop:
                    room = sections[i].stop - file.tell()
                    count = int(np.searchsorted(stops, room, side="right"))
                    assert count < stops.size
                size = int(stops[count - 1])
                file.write(text[:size])
                np.add.at(counts[sections[i].part], words.ranks[:count], _ONE)
                tallies[i].words += count
                tallies[i].lines += int(words.ends[:count].sum())
                tallies[i].characters += size
                tallies[i].nats += float(words.nats[:count].sum())
                progress.add(stops.size)
            if sections[i].stop:
                file.write(b" " * (sections[i].stop - file.tell()))
    return tallies, counts


def _draw_ahead(source, sections, threads):
    """Yields section numbers and drawn blocks in order, few at a time."""
    waiting = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for i, section in enumerate(sections):
            for j in range(math.ceil(section.words / _BLOCK_WORDS)):
                count = min(_BLOCK_WORDS, section.words - j * _BLOCK_WORDS)
                waiting.append((i, pool.submit(source.draw, i, j, count)))
                if len(waiting) > 2 * threads:
                    number, block = waiting.popleft()
                    yield number, block.result()
        for number, block in waiting:
            yield number, block.result()


class _Progress:
    """Says how much is done and what time is left, but not often."""

    def __init__(self, words, log):
        self._words, self._log = words, log
        self._done = 0
        self._begin = self._said = time.monotonic()

    def add(self, words):
        self._done += words
        now = time.monotonic()
        if now - self._said > _SECONDS_BETWEEN_LINES:
            self._said = now
            left = (now - self._begin) * (self._words / self._done - 1)
            self._log(
                f"{self._done / 1e6:,.0f} of {self._words / 1e6:,.0f} million "
                f"words, {left:.0f} s left"
            )
