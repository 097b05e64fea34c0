"""One training run: from the corpus to a file of vectors."""

import collections
import concurrent.futures
import dataclasses
import itertools
import pathlib
import time

from examples.common import settings as settings_lib
from examples.common.progress import Progress
from examples.word2vec import checkpoint, formats, model, text, windows

_LARGEST_LOSS = 100  # nats; guessing among 1e43 words
_LEAST_RATE = 1e-4  # of the first rate, as in word2vec.c
_SLICES_AHEAD = 3


def prepare(settings, save_dir, resume=False):
    """Reads the corpus and makes or reloads the model; returns a `Job`.

    Args:
        settings: A `settings.Settings`.
        save_dir: The folder of the run; made if it is missing.
        resume: Whether to continue the run in `save_dir`, if there is one.

    Raises:
        OSError: The corpus, `save_dir` or the run to resume cannot be read.
        ValueError: There is too little text, or the run to resume has other
            settings or another text.
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
    trained = model.Model(words.counts, settings)
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
    return Job(save_dir, words, trained, state)


@dataclasses.dataclass
class Job:
    """A run in memory.

    Attributes:
        save_dir: The folder of the run.
        text: The `text.Text`.
        model: The `model.Model`.
        state: The `checkpoint.Run`.
    """

    save_dir: pathlib.Path
    text: text.Text
    model: model.Model
    state: checkpoint.Run

    @property
    def num_words(self):
        """The words of all epochs."""
        return self.state.settings.epochs * int(self.text.counts.sum())

    def train(self, save_seconds=300, is_over=lambda: False):
        """Trains up to the last epoch and saves; does nothing after it.

        Args:
            save_seconds: The time between further checkpoints.
            is_over: A function. When it returns true, the run is saved where it
                stands, and `train` returns.

        Raises:
            FloatingPointError: Training diverged; what was saved before stays.
        """
        settings, state = self.state.settings, self.state
        if state.epochs_done == settings.epochs:
            return
        slices = windows.Windows(self.text, settings)
        progress = Progress("", self.num_words - state.words_done, "words")
        places = itertools.islice(
            itertools.product(range(settings.epochs), range(len(slices))),
            state.epochs_done * len(slices) + state.slices_done,
            None,
        )
        saved = time.monotonic()
        for piece in _made_ahead(slices.slice, places):
            self._train_on(piece)
            title = f"epoch {state.epochs_done + 1}/{settings.epochs}"
            loss = state.loss / max(state.num_examples, 1)
            progress.title = f"{title}, loss {loss:.3f}"
            progress.add(piece.num_words, piece.num_words)
            if state.slices_done == len(slices):
                print(f"{title}: loss {loss:.4f}", flush=True)
                state.epochs_done += 1
                state.slices_done = state.num_examples = 0
                state.loss = 0.0
            if is_over():
                break
            if time.monotonic() >= saved + save_seconds:
                self._save()
                saved = time.monotonic()
        self._save()

    def _train_on(self, piece):
        """Trains on a `windows.Slice`."""
        state = self.state
        left = 1 - state.words_done / self.num_words
        rate = state.settings.learning_rate * max(left, _LEAST_RATE)
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

    def write(self):
        """Writes the vectors in the format of word2vec; returns them."""
        vectors = self.model.vectors.numpy()
        formats.write(self.save_dir / formats.FILE, self.text.words, vectors)
        print(f"Wrote {self.save_dir / formats.FILE}")
        return vectors


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
