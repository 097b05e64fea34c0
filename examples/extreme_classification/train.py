r"""From bags of features to several of many labels: extreme classification.

    bazel run //examples/extreme_classification:train
    bazel run //examples/extreme_classification:train -- --data=$HOME/eurlex

The labels of a Debian package are the packages that it depends on, and its
features are the words of its description. docs/extreme_classification.md
explains each step. --data may name a folder of the Extreme Classification
Repository.
"""

import os
import sys
import time
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from examples.common import program
from examples.extreme_classification import (
    bags,
    data,
    packages,
    thresholds,
)


class Settings(NamedTuple):
    """What is trained, and how; the defaults suit the packages of Debian."""

    width: int = 1024  # of the vector of a feature
    branching: int = 16  # of the tree
    feature_dropout: float = 0.1  # share of the features that a step leaves out
    hidden_dropout: float = 0.5  # the same of the hidden units
    epochs: int = 8
    batch_size: int = 256
    rate: float = 0.002  # of the features' vectors; it falls to 0
    head_rate: float = 0.01  # of the tree; it falls to 0
    seed: int = 1


_DEBIAN = "debian_packages"
flags = program.Flags()

_DATA = flags.DEFINE_string(
    "data",
    _DEBIAN,
    "A folder with the data set. The default, of Debian's packages, is made "
    "if it is missing.",
)
_LISTS = flags.DEFINE_string(
    "lists", packages.LISTS, "The folder of apt's package indexes."
)
_EPOCHS = flags.define_count(
    "epochs", Settings().epochs, "Passes over the training data."
)
_WIDTH = flags.define_count(
    "width", Settings().width, "Size of the vector of a feature."
)
_SAMPLES = flags.define_count("samples", 3, "Test examples that are shown.")

_VALIDATION_PART = 20  # one training example in twenty chooses the threshold


def main():
    """Trains, evaluates, and shows the labels of some examples.

    Bad input ends in one line and status 1.
    """
    settings = Settings(epochs=_EPOCHS.value, width=_WIDTH.value)
    keras.utils.set_random_seed(settings.seed)
    try:
        if _DATA.value == _DEBIAN and not os.path.exists(_DEBIAN):
            data.write(packages.read(_LISTS.value), _DEBIAN)
        examples, test = data.read(_DATA.value)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(
        f"{len(examples):,} training and {len(test):,} test examples, "
        f"{examples.num_features:,} features, {examples.num_labels:,} labels"
    )
    is_validation = np.arange(len(examples)) % _VALIDATION_PART == 0
    begin = time.process_time()
    model = train(examples, settings, np.nonzero(~is_validation)[0], verbose=2)
    print(f"Training took {time.process_time() - begin:.0f} s of CPU time.")
    for name, value in evaluate(model, examples, test).items():
        print(f"  {name:15} {value:.4f}")
    threshold = thresholds.best(
        model,
        bags.of(examples, np.nonzero(is_validation)[0]),
        examples.labels()[is_validation],
    )
    for least in (0.5, threshold):
        print(thresholds.report(model, bags.of(test), test.labels(), least))
    names = data.label_names(_DATA.value, examples.num_labels)
    show_samples(model, test, names, _SAMPLES.value)


def train(examples, settings, chosen=None, verbose=0):
    """Returns a trained model of the labels of bags of features.

    Args:
      examples: `ExtremeData`.
      settings: `Settings`.
      chosen: the numbers of the examples to train on; None: all.
      verbose: as of `keras.Model.fit`.
    """
    chosen = np.arange(len(examples)) if chosen is None else chosen
    labels = examples.labels()[chosen]
    inputs = bags.of(examples, chosen)
    tree = make_tree(examples, inputs, labels, settings)
    model = make_model(
        tree,
        examples.num_features,
        settings,
        num_steps=settings.epochs * -(-len(chosen) // settings.batch_size),
        counts=tf_hsm.LabelCounts.of(tree, labels),
    )
    batches = (
        tf.data.Dataset.from_tensor_slices((tuple(inputs), labels))
        .shuffle(len(chosen), settings.seed)
        .batch(settings.batch_size)
    )
    model.fit(batches, epochs=settings.epochs, shuffle=False, verbose=verbose)
    return model


def make_tree(examples, inputs, labels, settings, width=128):
    """Returns a tree in which labels of similar examples share groups.

    The vector of a label is the sum of the features of the examples that have
    the label. A random projection makes the vectors short, and keeps their
    angles roughly. Clustering the vectors makes the tree.
    """
    projection = np.random.default_rng(settings.seed).normal(
        size=[examples.num_features, width]
    )
    projected = bags.sums(tf.constant(projection, tf.float32), inputs).numpy()
    vectors = np.zeros([examples.num_labels, width], np.float32)
    rows, columns = np.nonzero(labels >= 0)
    np.add.at(vectors, labels[rows, columns], projected[rows])
    return tf_hsm.Tree.from_embeddings(
        vectors, branching=settings.branching, seed=settings.seed
    )


def make_model(tree, num_features, settings, num_steps, counts):
    """Returns a compiled model, from bags of features to a `LabelTree`."""

    def falling(rate):
        return keras.optimizers.schedules.PolynomialDecay(rate, num_steps)

    inputs = [
        keras.Input([None], dtype="int64", ragged=True, name="features"),
        keras.Input([None], dtype="float32", ragged=True, name="values"),
    ]
    hidden = bags.BagOfFeatures(
        num_features,
        settings.width,
        settings.feature_dropout,
        # Vectors of the length 1 on average.
        embeddings_initializer=keras.initializers.RandomNormal(
            stddev=settings.width**-0.5
        ),
    )(inputs)
    hidden = keras.layers.ReLU()(hidden)
    hidden = keras.layers.Dropout(settings.hidden_dropout)(hidden)
    head = tf_hsm.layers.LabelTree(
        tree,
        counts=counts,  # the biases begin at the frequencies of the labels
        kernel_initializer="zeros",
        # The head updates its rows in place, and only the rows of a batch.
        optimizer=tf_hsm.optimizers.LazyAdam(falling(settings.head_rate)),
        name="head",
    )
    model = keras.Model(inputs, head(hidden))
    # Lazy Adam updates only the vectors of the features of a batch.
    optimizer = tf_hsm.optimizers.LazyAdam(falling(settings.rate))
    model.compile(optimizer, loss=head.loss)
    return model


def evaluate(model, examples, test):
    """Returns the metrics of the test examples, by name.

    Args:
      model: from `train`.
      examples: the training data, whose label counts weigh rare labels.
      test: `ExtremeData`.
    """
    head = model.get_layer("head")
    counts = np.bincount(examples.label_ids, minlength=examples.num_labels)
    metrics = [
        *(tf_hsm.metrics.PrecisionAtK(head, k) for k in (1, 3, 5)),
        tf_hsm.metrics.NDCGAtK(head, 5),
        tf_hsm.metrics.RecallAtK(head, 5),
        *(
            tf_hsm.metrics.PropensityScoredPrecisionAtK(
                head, counts, len(examples), k
            )
            for k in (1, 3, 5)
        ),
    ]
    model.compile(loss=head.loss, metrics=metrics)
    return model.evaluate(
        bags.of(test),
        test.labels(),
        batch_size=500,
        verbose=0,
        return_dict=True,
    )


def show_samples(model, test, names, count):
    """Prints the ten best labels of some test examples; + stands for right."""
    chosen = np.linspace(0, len(test) - 1, count).astype(int)
    probs, found = thresholds.best_labels(model, bags.of(test, chosen), k=10)
    right = thresholds.is_right(found, test.labels()[chosen])
    for example, *columns in zip(chosen, probs, found, right, strict=True):
        print(f"Example {example:,}:")
        for prob, label, hit in zip(*columns, strict=True):
            print(f"  {'+' if hit else ' '} {prob:6.1%} {names[label]}")


if __name__ == "__main__":
    program.run(main, flags)
