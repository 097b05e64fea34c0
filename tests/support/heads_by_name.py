"""A small head of each kind of `tf_hsm.layers`, by the name of its class."""

import numpy as np
import tensorflow as tf

import tf_hsm

NUM_CLASSES, WIDTH, BATCH = 30, 6, 12
COUNTS = 1 + np.arange(NUM_CLASSES) ** 2
TREE = tf_hsm.Tree.huffman(COUNTS, branching=3).with_counts(None)
_OPTIONS = {
    "HierarchicalSoftmax": {"tree": TREE},
    "AdaptiveSoftmax": {
        "num_classes": NUM_CLASSES,
        "cutoffs": [5, 14],
        "div_value": 1.5,
    },
    "EmbeddingSoftmax": {
        "tree": TREE,
        "num_embeddings": 20,
        "width": WIDTH,
        "kernel_initializer": "random_normal",
    },
    "LabelTree": {"tree": TREE},
    "SampledSoftmax": {"num_classes": NUM_CLASSES, "num_sampled": 9},
}
NAMES = [*_OPTIONS]


def make(name, **options):
    """Returns a head that has no weights yet."""
    layer = getattr(tf_hsm.layers, name)
    return layer(**{**_OPTIONS[name], **options})


def built(name, **options):
    """Returns a head whose weights are random, and the same at every call."""
    head = make(name, **options)
    head.build([None, WIDTH])
    rng = np.random.default_rng(0)
    variables = [*head.row_variables(), *getattr(head, "projections", [])]
    for variable in variables:
        variable.assign(rng.normal(size=variable.shape))
    return head


def inputs(name):
    """Returns vectors `[BATCH, WIDTH]`; ids `[BATCH]` of an embedding."""
    rng = np.random.default_rng(1)
    if name == "EmbeddingSoftmax":
        return tf.constant(rng.integers(20, size=BATCH))
    return tf.constant(rng.normal(size=[BATCH, WIDTH]), tf.float32)


def label_sets():
    """Returns labels `[BATCH, 3]`; the last one is -1, no label, at times."""
    labels = np.random.default_rng(2).integers(NUM_CLASSES, size=[BATCH, 3])
    labels[::3, 2] = -1
    return labels


def labels(name):
    """Returns what the head trains on: label sets, or a label each."""
    sets = label_sets()
    return sets if name == "LabelTree" else sets[:, 0]
