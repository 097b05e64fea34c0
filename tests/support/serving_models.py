"""Models to export, and what is asked of them."""

import keras
import numpy as np
import tensorflow as tf

from tests.support.models import (
    NUM_CLASSES,
    TREE,
    hidden_layers,
    make_data,
    sequential,
)
from tf_hsm.layers import AdaptiveSoftmax, LabelTree

K = 4
# Inputs of the signature `sample`.
OPTIONS = {
    "seed": 7,
    "num_samples": 5,
    "temperature": 0.7,
    "top_k": 6,
    "top_p": 0.9,
}


def make_inputs():
    """Tokens [B, T], and some classes [B, T, C] for each."""
    tokens, _ = make_data()
    rng = np.random.default_rng(0)
    classes = rng.integers(NUM_CLASSES, size=[*tokens.shape, 3])
    return tf.constant(tokens, tf.int32), tf.constant(classes)


def adaptive_form():
    """A model of a class order of its own, with a tree for a tail."""
    return sequential(
        *hidden_layers(),
        AdaptiveSoftmax(
            NUM_CLASSES,
            cutoffs=[11],
            div_value=2,
            counts=np.arange(NUM_CLASSES) * 7 % 11,
            tail="two_level",
        ),
    )


def label_tree_form(**options):
    """A label tree with many labels above a threshold, and with few."""
    head = LabelTree(
        TREE,
        kernel_initializer="random_normal",
        bias_initializer=keras.initializers.RandomNormal(1.0, 0.5, seed=2),
        **options,
    )
    return sequential(*hidden_layers(dtype=options.get("dtype")), head)
