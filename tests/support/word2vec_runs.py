"""Runs of word2vec that take seconds."""

import random

import numpy as np

from examples.common import program
from examples.word2vec import model, settings, text, train
from tests.support.word2vec_reference import Reference


def make_settings(**changes):
    """Settings for a run of seconds; unknown fields fail."""
    small = {"width": 6, "window": 3, "sample": 0, "batch_size": 7, "epochs": 2}
    return settings.Settings(**{**small, **changes})


def make_text(num_tokens=500, num_words=12, seed=0):
    """A `Text` whose classes are shuffled, with ends and rare words."""
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, num_words + 3)
    classes = rng.choice(
        num_words + 2, num_tokens, p=chances / chances.sum()
    ).astype(np.int32)
    word_of_class = np.array([0, 1, text._END, 2, text._NO_WORD])
    word_of_class = np.append(word_of_class, np.arange(3, num_words))
    words = word_of_class[classes]
    return text.Text(
        words=tuple(f"word{i}" for i in range(num_words)),
        counts=np.bincount(words[words >= 0], minlength=num_words),
        classes=classes,
        word_of_class=word_of_class.astype(np.int32),
    )


def write_topics(folder, topics):
    """Writes sentences of which each is about one of the topics.

    Args:
        folder: Where the file goes.
        topics: Lists of words.

    Returns:
        The path of the file.
    """
    rng = random.Random(0)
    lines = []
    for i in range(1500):
        words = rng.choices(topics[i % len(topics)], k=9)
        lines.append(" ".join(["the", *words]))
        if i % 50 == 0:
            lines.append(f"rare{i}")
    path = folder / "text.txt"
    path.write_text("\n".join(lines))
    return path


def command(*arguments):
    """Runs the program with these flags."""
    program.run(train.main, train.flags, ["train", *arguments])


def random_model(counts, chosen):
    """Makes a `model.Model` with random numbers, and a `Reference` of it."""
    trained = model.Model(counts, chosen)
    rng = np.random.default_rng(1)
    for table in trained.vectors, trained.weights:
        table.assign(rng.normal(size=table.shape).astype(np.float32))
    vectors, weights = trained.vectors.numpy(), trained.weights.numpy()
    reference = Reference(trained.tree, vectors, weights, chosen.optimizer)
    return trained, reference


def assert_near(trained, reference):
    """Asserts that a `model.Model` has the numbers of a `Reference`."""
    for name in "vectors", "weights":
        np.testing.assert_allclose(
            getattr(trained, name), getattr(reference, name), atol=2e-5
        )
