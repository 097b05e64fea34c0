"""The files between the processes of a comparison; no TensorFlow."""

import dataclasses
import json
import os
import pathlib
import random
import sys

import numpy as np

_LINE = 10_000  # words, at most; gensim drops what is longer
_HELD_OUT = 50_000  # predictions
_SEED = 7


def lines(folder, shuffled=False):
    """The text to train on: the numbers of its words, a sentence a line."""
    return pathlib.Path(folder, "shuffled.txt" if shuffled else "lines.txt")


def result(folder):
    """What a run leaves: see `write_result`."""
    return pathlib.Path(folder, "result.npz")


def write_text(folder, settings):
    """Writes what the runs read; returns the number of words to train on.

    Args:
        folder: where to.
        settings: a `settings.Settings`, of which the corpus, the architecture
            and the window count.

    Raises:
        OSError, ValueError: see `text.load`, or nothing is held out.
    """
    from examples.corpora import corpus
    from examples.word2vec import text

    loaded = corpus.load(settings)
    train = text.of_corpus(loaded, settings.sentences)
    num_words = 0
    with open(lines(folder), "w") as file:
        for begin in range(0, len(train), 1 << 20):
            words, sentences = train.read(begin, begin + (1 << 20))
            num_words += len(words)
            ends = np.flatnonzero(np.diff(sentences)) + 1
            for line in np.split(words, ends):
                for at in range(0, len(line), _LINE):
                    print(*line[at : at + _LINE].tolist(), file=file)
    with open(lines(folder)) as file:
        in_order = file.readlines()
    random.Random(_SEED).shuffle(in_order)
    lines(folder, shuffled=True).write_text("".join(in_order))
    _write_held_out(
        folder, dataclasses.replace(train, classes=loaded.valid), settings
    )
    return num_words


def _write_held_out(folder, text, settings):
    """Writes bags of words, and the word that each predicts."""
    from examples.word2vec import windows

    rng = np.random.default_rng(_SEED)
    words, sentences = text.read(0, len(text))
    places = windows.neighbours(
        sentences,
        np.full(len(words), settings.window),
        rng.permutation(len(words)),
    )
    examples = getattr(windows, settings.architecture)(words, *places, rng)
    contexts, labels = examples[0], examples[-1][:_HELD_OUT]
    splits = examples[1] if len(examples) == 3 else np.arange(len(contexts) + 1)
    if not len(labels):
        raise ValueError("the corpus has no text that is held out")
    splits = splits[: len(labels) + 1]
    np.savez(
        pathlib.Path(folder, "held_out.npz"),
        contexts=contexts[: splits[-1]],
        splits=splits,
        labels=labels,
    )


def read_held_out(folder, vectors):
    """The means of bags of `vectors`, `[n, width]`, and their labels `[n]`."""
    with np.load(pathlib.Path(folder, "held_out.npz")) as file:
        contexts, splits, labels = (
            file[name] for name in ("contexts", "splits", "labels")
        )
    sums = np.add.reduceat(vectors[contexts], splits[:-1], axis=0)
    return sums / np.diff(splits)[:, np.newaxis], labels


def read_spec():
    """The spec of this process, which is held to its processors."""
    spec = json.loads(sys.argv[1])
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cpus[: spec["threads"]])
    return spec


def write_result(spec, seconds, losses, vectors):
    """Ends a run that has trained for `seconds`."""
    words = spec["num_words"] * spec["settings"]["epochs"]
    np.savez(
        result(spec["folder"]),
        words_per_s=words / seconds,
        loss=np.mean(losses, dtype=np.float64),
        vectors=vectors,
    )
