"""A small problem whose classes are in clusters, and models that learn it.

The input is one of 12 tokens, which stands for a cluster of 5 classes, and the
label is a class of the cluster, or at times any class. Classes have random
numbers, so that a tree that knows none of the clusters has them apart.
"""

import keras
import numpy as np

import tf_hsm
from tf_hsm import Tree
from tf_hsm.layers import HierarchicalSoftmax

NUM_CLUSTERS, NUM_CLASSES, WIDTH = 12, 60, 16
EXAMPLES = 2_000
COUNTS = 1 + np.arange(NUM_CLASSES) ** 2
TREES = {
    "balanced": lambda: Tree.balanced(NUM_CLASSES, 4),
    "ragged": lambda: Tree.from_counts(COUNTS, branching=6),
    "pinned": lambda: Tree.huffman(COUNTS, branching=2, pinned=True),
}


def make_data(seed=0, examples=EXAMPLES):
    """Returns tokens `[n, 1]` and labels `[n]`."""
    clusters = np.random.default_rng(7).permutation(NUM_CLASSES)
    clusters = clusters.reshape(NUM_CLUSTERS, -1)
    rng = np.random.default_rng(seed)
    tokens = rng.integers(NUM_CLUSTERS, size=[examples, 1])
    members = rng.integers(clusters.shape[1], size=examples)
    labels = clusters[tokens[:, 0], members]
    is_noise = rng.random(examples) < 0.1
    labels[is_noise] = rng.integers(NUM_CLASSES, size=is_noise.sum())
    return tokens, labels


def adam():
    return tf_hsm.optimizers.LazyAdam(0.01)


def make_model(tree=None, own=False, optimizer=None, dtype=None, **options):
    """A model for `fit(tokens, labels)`; `options` are the head's.

    Args:
      tree: of the head.
      own: whether the head has an optimizer of its own.
      optimizer: of the model.
      dtype: of the head.
      **options: of the head.
    """
    keras.utils.set_random_seed(3)
    head = HierarchicalSoftmax(
        TREES["ragged"]() if tree is None else tree,
        optimizer=adam() if own else None,
        dtype=dtype,
        **options,
    )
    model = keras.Sequential(
        [
            keras.Input([1], dtype="int32"),
            keras.layers.Embedding(NUM_CLUSTERS, WIDTH),
            keras.layers.Flatten(),
            keras.layers.Dense(WIDTH, activation="tanh"),
            head,
        ]
    )
    model.compile(optimizer or adam(), head.loss)
    return model


def fit(model, data=None, epochs=1, **options):
    """Trains for 20 steps an epoch; returns the losses of the epochs."""
    x, y = make_data() if data is None else data
    history = model.fit(x, y, 100, epochs, verbose=0, shuffle=False, **options)
    return history.history["loss"]


def held_loss(model):
    """The loss of other examples."""
    return model.evaluate(*make_data(1), batch_size=500, verbose=0)


def hidden(model, seed=2, examples=200):
    """Inputs of the head."""
    body = keras.Model(model.inputs[0], model.layers[-1].input)
    return body(make_data(seed, examples)[0])


def clustered(tree):
    """The tree of the same shape whose groups have the clusters."""
    x, y = make_data()
    vectors = np.zeros([NUM_CLASSES, NUM_CLUSTERS])
    np.add.at(vectors, (y, x[:, 0]), 1)
    return tree.regroup(vectors)
