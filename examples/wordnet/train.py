r"""Learns which of WordNet's 82,115 nouns a definition is of.

    bazel run //examples/wordnet:train
    bazel run //examples/wordnet:train -- --plot=nouns.png
    bazel run //examples/wordnet:train -- --nouns=$PWD/data.noun

The tree is the taxonomy itself. The command compares it with a tree of two
levels over the same classes in random order. README.md beside this file
explains the model.
"""

import sys
import time

import numpy as np

from examples.common import program
from examples.wordnet import glosses, nouns

flags = program.Flags()

_NOUNS = flags.DEFINE_string(
    "nouns", nouns.PATH, "WordNet's data.noun, as wordnet-base installs it."
)
_TREES = flags.DEFINE_multi_enum(
    "tree",
    ["taxonomy", "two_level"],
    ["taxonomy", "two_level"],
    "A tree to train with; both by default.",
)
_PLOT = flags.DEFINE_string(
    "plot", "", "Where to draw the taxonomy: a .png, .svg or .pdf."
)
_WIDTH = flags.define_count("width", 64, "Size of an embedding.")
_DROPOUT = flags.DEFINE_float(
    "dropout",
    0.3,
    "Share of the words left out in training.",
    lower_bound=0,
    upper_bound=0.99,
)
_EPOCHS = flags.define_count("epochs", 6, "Passes over the glosses.")
_BATCH_SIZE = flags.define_count(
    "batch_size", 1024, "Glosses in a training step."
)
_LEARNING_RATE = flags.DEFINE_float(
    "learning_rate",
    0.02,
    "Adam's rate at the start; it falls along a cosine to a twentieth.",
    lower_bound=0,
)
_SEED = flags.DEFINE_integer(
    "seed", 1, "Seed of all random numbers.", lower_bound=0
)

_SAMPLES = 6


def main():
    """Runs what the flags say; bad input ends in one line and status 1."""
    import keras

    from examples.wordnet import model as model_lib
    from examples.wordnet import taxonomy

    try:
        synsets = nouns.read(_NOUNS.value)
        tree = taxonomy.build(synsets)
        if _PLOT.value:
            tree.plot(path=_PLOT.value)
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(tree.summary())
    data = glosses.prepare(synsets, _SEED.value)
    num_held_out = len(data.held_out.labels)
    if not num_held_out:
        sys.exit(f"error: {_NOUNS.value} has no gloss that can be divided.")
    class_paths = taxonomy.paths(tree)
    labels = data.held_out.labels
    others = np.random.default_rng(_SEED.value).integers(
        len(synsets), size=num_held_out
    )
    uniform, deepest = (
        taxonomy.common_depths(class_paths, classes, labels).mean()
        for classes in (others, labels)
    )
    lines = [
        f"{num_held_out:,} halves of glosses, held out:",
        f"  {'chance':9} perplexity {len(synsets):,}, common ancestor at depth "
        f"{uniform:.2f}; of a class with itself: {deepest:.2f}",
    ]
    for name in dict.fromkeys(_TREES.value):
        keras.utils.set_random_seed(_SEED.value)
        print(f"\nTraining with the tree {name}", flush=True)
        model_tree = tree
        if name == "two_level":
            model_tree = model_lib.shuffled_two_level(len(synsets), _SEED.value)
        model = model_lib.build(
            model_tree, len(data.vocabulary), _WIDTH.value, _DROPOUT.value
        )
        begin = time.monotonic()
        model_lib.train(
            model,
            data.training,
            _BATCH_SIZE.value,
            _EPOCHS.value,
            _LEARNING_RATE.value,
        )
        seconds = time.monotonic() - begin
        found = model_lib.evaluate(
            model, data.held_out, class_paths, _BATCH_SIZE.value
        )
        lines.append(f"  {name:9} {found}; {seconds:.0f} s of training")
        num_rows = min(_SAMPLES, num_held_out)
        print(model_lib.predictions(model, tree, data, num_rows), flush=True)
    print("", *lines, sep="\n")


if __name__ == "__main__":
    program.run(main, flags)
