"""One training run: prepare, train, write."""

import collections
import concurrent.futures
import dataclasses
import itertools
import math
import pathlib
import time

import tensorflow as tf

from examples.common import settings as settings_lib
from examples.common.progress import Progress
from examples.word2vec import (
    checkpoint,
    formats,
    model,
    ngrams,
    subwords,
    tables,
    text,
    windows,
)

_LARGEST_LOSS = 100  # nats; guessing among 1e43 words
_LEAST_RATE = 1e-4  # of the first; word2vec.c's
_SLICES_AHEAD = 3


def prepare(settings, save_dir, resume=False):
    """Reads the corpus and makes or reloads the model; returns a `Job`.

    Args:
        settings: a `settings.Settings`.
        save_dir: folder of the run, made if it does not exist.
        resume: whether to continue the run in `save_dir`, if there is one.

    Raises:
        OSError: the corpus, `save_dir` or the run to resume cannot be read.
        ValueError: too little text, or a run with other settings or text.
    """
    save_dir = pathlib.Path(save_dir)
    print(f"Reading the corpus, {settings.corpus} ...", flush=True)
    words = text.load(settings)
    print(
        f"{words.counts.sum():,} words, {len(words.words):,} different ones, "
        f"in {len(words):,} tokens."
    )
    save_dir.mkdir(parents=True, exist_ok=True)
    state = checkpoint.Run(settings, words.digest)
    is_saved = checkpoint.exists(save_dir)
    if resume and is_saved:
        state = checkpoint.load(save_dir)
        settings_lib.check_resumed(
            save_dir, state.settings, settings, state.digest == words.digest
        )
    bags = subwords.bags(words.words, settings)
    trained = model.Model(words.counts, settings, bags)
    if resume and is_saved:
        checkpoint.load_tables(save_dir, trained.variables)
        print(f"Resuming after {state.words_done:,} words.")
    elif resume:
        print("Nothing is saved there yet: starting from the beginning.")
    elif is_saved:
        checkpoint.set_aside(save_dir)
        print(f"The earlier run there is now {checkpoint.EARLIER}.")
    print(
        f"{trained.vectors.shape.num_elements():,} parameters in vectors, "
        f"{trained.weights.shape.num_elements():,} in the tree, whose depth is "
        f"{trained.tree.depth}. Writing to {save_dir}"
    )
    return Job(save_dir, words, bags, trained, state)


@dataclasses.dataclass
class Job:
    """A run in memory.

    Attributes:
        save_dir: its folder.
        text: its `text.Text`.
        bags: the `subwords.Bags` of its words, or None.
        model: its `model.Model`.
        state: the `checkpoint.Run`.
    """

    save_dir: pathlib.Path
    text: text.Text
    bags: subwords.Bags | None
    model: model.Model
    state: checkpoint.Run

    def train(
        self,
        deadline=math.inf,
        save_minutes=math.inf,
        interrupted=lambda: False,
    ):
        """Trains up to the last epoch and saves; does nothing after it.

        Args:
            deadline: `time.monotonic()` seconds; the run is saved where it
                stands then, if it has not ended before.
            save_minutes: between further checkpoints.
            interrupted: a function that says whether the user ends the run,
                which is saved where it stands then.

        Raises:
            FloatingPointError: training diverged; what was saved before stays.
            KeyboardInterrupt: the user has ended the run, which is saved.
        """
        settings, state = self.state.settings, self.state
        if state.epochs_done == settings.epochs:
            return
        slices = windows.Windows(self.text, settings)
        num_words = settings.epochs * int(self.text.counts.sum())
        progress = Progress("", num_words - state.words_done, "words")
        places = itertools.islice(
            itertools.product(range(settings.epochs), range(len(slices))),
            state.epochs_done * len(slices) + state.slices_done,
            None,
        )
        saved = time.monotonic()
        for piece in _made_ahead(slices.slice, places):
            self._train_on(piece, state.words_done / num_words)
            title = f"epoch {state.epochs_done + 1}/{settings.epochs}"
            loss = state.loss / max(state.num_examples, 1)
            progress.title = f"{title}, loss {loss:.3f}"
            progress.add(piece.num_words, piece.num_words)
            if state.slices_done == len(slices):
                progress.end()
                print(f"{title}: loss {loss:.4f}", flush=True)
                state.epochs_done += 1
                state.slices_done = state.num_examples = 0
                state.loss = 0.0
            now = time.monotonic()
            if now >= deadline or interrupted():
                break
            if now >= saved + 60 * save_minutes:
                self._save()
                saved = time.monotonic()
        self._save()
        place = f"after {state.words_done:,} of {num_words:,} words"
        if interrupted():
            raise KeyboardInterrupt(f"The run is saved {place}.")
        if state.epochs_done < settings.epochs:
            print(
                f"\n--max_minutes is over {place}. The run is saved; the same "
                "command with --resume continues."
            )

    def _train_on(self, piece, done):
        """Trains on a `windows.Slice` when a share `done` of all is done."""
        state = self.state
        rate = state.settings.learning_rate * max(1 - done, _LEAST_RATE)
        num_examples = len(piece.examples[-1])
        loss = self.model.train(piece.examples, rate)
        if not loss <= _LARGEST_LOSS * num_examples:
            raise FloatingPointError(
                f"The training loss is {loss / num_examples} after "
                f"{state.words_done:,} words: lower --learning_rate or "
                "--batch_size."
            )
        state.loss += loss
        state.num_examples += num_examples
        state.words_done += piece.num_words
        state.slices_done += 1

    def _save(self):
        checkpoint.save(self.save_dir, self.state, self.model.variables)

    def write(self, kinds):
        """Writes the vectors in formats of `formats.FILES`; prints where.

        And those of the n-grams, if there are such.
        """
        for kind in kinds:
            path = self.save_dir / formats.FILES[kind]
            formats.write(
                kind,
                path,
                self.text.words,
                self.text.counts,
                tables.blocks(self.model.vectors, bags=self.model.bags),
            )
            print(f"Wrote {path}")
        if found := self.ngrams():
            path = self.save_dir / ngrams.FILE
            ngrams.write(path, found)
            print(f"Wrote {path}")

    def ngrams(self):
        """The `ngrams.Ngrams` as they are trained; None if there are none."""
        if self.bags is None:
            return None
        settings = self.state.settings
        rows = tf.range(len(self.text.words), self.bags.num_rows)
        return ngrams.Ngrams(
            min_n=settings.min_n,
            max_n=settings.max_n,
            num_buckets=settings.buckets,
            buckets=self.bags.buckets,
            vectors=tf.gather(self.model.vectors, rows).numpy(),
        )


def _made_ahead(make, arguments):
    """Yields `make(*a)` for all arguments in order, made in another thread."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = collections.deque()
        for a in arguments:
            waiting.append(pool.submit(make, *a))
            if len(waiting) > _SLICES_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
