r"""Trains word vectors with a hierarchical softmax, as word2vec does.

    bazel run //:word2vec -- --corpus=$PWD/text.txt
    bazel run //:word2vec -- --architecture=cbow --neighbours=int,open
    bazel run //:word2vec -- --corpus=$PWD/text.txt --optimizer=sgd --width=300

Writes the vectors to --output in the format of word2vec, and shows the nearest
neighbours of some words.
"""

import collections
import concurrent.futures
import sys

from examples.common import program
from examples.common import settings as settings_lib
from examples.common.progress import Progress
from examples.word2vec import settings, vectors

flags = program.Flags()

settings_lib.define(flags, settings.Settings)
_OUTPUT = flags.DEFINE_string("output", "vectors.bin", "File to write.")
_NEIGHBOURS = flags.DEFINE_list(
    "neighbours",
    [],
    "Words whose nearest neighbours (by cosine) are shown; by default some "
    "frequent words.",
)
_COUNT = flags.define_count("num_neighbours", 8, "Neighbours of each word.")

_LARGEST_LOSS = 100  # nats; guessing among 1e43 words
_LEAST_RATE = 1e-4  # of the first rate, as in word2vec.c
_SLICES_AHEAD = 3


def main():
    """Runs what the flags say; bad input ends in one line and status 1."""
    try:
        chosen = settings.Settings(
            **settings_lib.given(settings.Settings, flags)
        )
        words, trained = train(chosen)
    except (OSError, ValueError, FloatingPointError) as error:
        sys.exit(f"error: {error}")
    vectors.write(_OUTPUT.value, words, trained)
    print(f"Wrote {_OUTPUT.value}. Nearest neighbours and their cosines:")
    print(vectors.table(words, trained, _NEIGHBOURS.value, _COUNT.value))


def train(chosen):
    """Reads the corpus and trains.

    Args:
        chosen: A `settings.Settings`.

    Returns:
        The words, most frequent first, and their vectors `[N, width]`.

    Raises:
        FloatingPointError: Training diverged.
        OSError: The corpus cannot be read.
        ValueError: There is too little text.
    """
    from examples.word2vec import model, text, windows

    print(f"Reading the corpus, {chosen.corpus} ...", flush=True)
    source = text.load(chosen)
    print(
        f"{source.counts.sum():,} words, {len(source.words):,} different ones, "
        f"in {len(source):,} tokens."
    )
    trained = model.Model(source.counts, chosen)
    slices = windows.Windows(source, chosen)
    num_words = chosen.epochs * int(source.counts.sum())
    progress, done = Progress("", num_words, "words"), 0
    for epoch in range(chosen.epochs):
        loss = num_examples = 0
        title = f"epoch {epoch + 1}/{chosen.epochs}"
        for piece in _made_ahead(slices.slice, epoch, len(slices)):
            left = max(1 - done / num_words, _LEAST_RATE)
            loss += trained.train(piece.examples, chosen.learning_rate * left)
            num_examples += len(piece.examples[-1])
            mean = loss / max(num_examples, 1)
            if not mean <= _LARGEST_LOSS:
                raise FloatingPointError(
                    f"The training loss is {mean} after {done:,} words: lower "
                    "--learning_rate or --batch_size."
                )
            done += piece.num_words
            progress.title = f"{title}, loss {mean:.3f}"
            progress.add(piece.num_words)
        print(f"{title}: loss {mean:.4f}", flush=True)
    return source.words, trained.vectors.numpy()


def _made_ahead(make, epoch, count):
    """Yields `make(epoch, i)` for i < count in order, made in a thread."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = collections.deque()
        for i in range(count):
            waiting.append(pool.submit(make, epoch, i))
            if len(waiting) > _SLICES_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


if __name__ == "__main__":
    program.run(main, flags)
