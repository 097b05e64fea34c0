r"""Learns which of WordNet's 82,115 nouns a definition is of.

bazel run //examples/wordnet:train
bazel run //examples/wordnet:train -- --nouns=$PWD/data.noun --plot=nouns.png

The tree is the taxonomy itself; a tree of two levels, over the same classes in
no order, is what it is compared with. README.md beside this file says more.
"""

import sys
import time

import keras
import numpy as np
from absl import app, flags

import tf_hsm
from examples.wordnet import glosses, nouns, taxonomy

_NOUNS = flags.DEFINE_string(
    "nouns", nouns.PATH, "WordNet's data.noun, as wordnet-base installs it."
)
_TREES = flags.DEFINE_multi_enum(
    "tree",
    ["taxonomy", "two_level"],
    ["taxonomy", "two_level"],
    "A tree to train with; give the flag twice for both.",
)
_PLOT = flags.DEFINE_string(
    "plot", "", "Where to draw the taxonomy: a .png, .svg or .pdf."
)
_WIDTH = flags.DEFINE_integer(
    "width", 64, "Size of an embedding.", lower_bound=1
)
_DROPOUT = flags.DEFINE_float(
    "dropout",
    0.3,
    "Share of the words left out in training.",
    lower_bound=0,
    upper_bound=0.99,
)
_EPOCHS = flags.DEFINE_integer(
    "epochs", 6, "Passes over the glosses.", lower_bound=1
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", 1024, "Glosses in a training step.", lower_bound=1
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

_K = 10
_SAMPLES = 6


def shuffled_two_level(num_classes, seed):
    """About sqrt(N) groups of about sqrt(N) classes that nothing joins."""
    tree = tf_hsm.Tree.two_level(num_classes)
    order = np.random.default_rng(seed).permutation(num_classes)
    return tf_hsm.Tree(
        tree.group_offsets, tree.group_parents, tree.class_rows[order]
    )


def build(tree, num_words, width, dropout):
    """A model from numbers of words `[B, T]`, 0 past the last, to a class.

    The head's input is the mean of the words' embeddings.
    """
    words = keras.Input([None], dtype="int32", name="words")
    hidden = keras.layers.Embedding(num_words, width, mask_zero=True)(words)
    # Whole words are left out.
    hidden = keras.layers.Dropout(dropout, noise_shape=(None, None, 1))(hidden)
    hidden = keras.layers.GlobalAveragePooling1D()(hidden)
    head = tf_hsm.layers.HierarchicalSoftmax(
        tree, kernel_initializer="zeros", name="head"
    )
    return keras.Model(words, head(hidden))


def train(model, examples):
    """Fits `model` to the examples, as the flags say."""
    num_steps = _EPOCHS.value * -(-len(examples.labels) // _BATCH_SIZE.value)
    schedule = keras.optimizers.schedules.CosineDecay(
        _LEARNING_RATE.value, num_steps, alpha=0.05
    )
    model.compile(
        tf_hsm.optimizers.LazyAdam(schedule),
        loss=model.get_layer("head").loss,
        metrics=[tf_hsm.metrics.Perplexity()],
    )
    model.fit(
        *examples,
        batch_size=_BATCH_SIZE.value,
        epochs=_EPOCHS.value,
        verbose=2,
    )


def evaluate(model, examples, class_paths):
    """Returns a line of measures on held-out examples."""
    model.compile(
        loss=model.get_layer("head").loss,
        metrics=[
            tf_hsm.metrics.Perplexity(),
            tf_hsm.metrics.TopKAccuracy(1, name="top_1"),
            tf_hsm.metrics.TopKAccuracy(_K, name="top_k"),
        ],
    )
    found = model.evaluate(
        *examples, batch_size=_BATCH_SIZE.value, verbose=0, return_dict=True
    )
    classes = model.predict(
        examples.words, batch_size=_BATCH_SIZE.value, verbose=0
    )
    depths = taxonomy.common_depths(class_paths, classes, examples.labels)
    return (
        f"perplexity {found['perplexity']:,.0f}, "
        f"top 1 {found['top_1']:.2%}, top {_K} {found['top_k']:.2%}, "
        f"common ancestor at depth {depths.mean():.2f}"
    )


def predictions(model, tree, data, num_rows):
    """Returns what the model finds for some held-out words, as text."""
    chosen = np.linspace(0, len(data.held_out.labels) - 1, num_rows).astype(int)
    words, labels = (array[chosen] for array in data.held_out)
    lines = []
    for bag, label, found in zip(
        words, labels, model.predict(words, verbose=0), strict=True
    ):
        lines += [
            "  " + " ".join(data.vocabulary[word] for word in bag if word),
            f"    is    {path_text(tree, label)}",
            f"    found {path_text(tree, found)}",
        ]
    return "\n".join(lines)


def path_text(tree, c):
    """The path of class `c`, from the most general name on."""
    return " > ".join(name.replace("_", " ") for name in tree.path_names(c))


def main(argv):
    """Reads the flags and runs; bad input ends in one line and status 1."""
    if len(argv) > 1:
        raise app.UsageError(f"Not a flag: {argv[1]}")
    start = time.monotonic()
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
            model_tree = shuffled_two_level(len(synsets), _SEED.value)
        model = build(
            model_tree, len(data.vocabulary), _WIDTH.value, _DROPOUT.value
        )
        begin = time.monotonic()
        train(model, data.training)
        seconds = time.monotonic() - begin
        found = evaluate(model, data.held_out, class_paths)
        lines.append(f"  {name:9} {found}; {seconds:.0f} s of training")
        num_rows = min(_SAMPLES, num_held_out)
        print(predictions(model, tree, data, num_rows), flush=True)
    print("", *lines, sep="\n")
    print(f"{(time.monotonic() - start) / 60:.1f} minutes in all.")


if __name__ == "__main__":
    app.run(main)
