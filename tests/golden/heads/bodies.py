"""The models around the heads, not compiled."""

import keras

NUM_CLASSES, WIDTH, STEPS, BAG = 30, 6, 4, 4


def vectors(head):
    """A model of vectors."""
    x = keras.Input([WIDTH], name="x")
    return keras.Model(x, head(_dense(head)(x)))


def tokens(head):
    """A model of sequences, where the token 0 is masked."""
    x = keras.Input([STEPS], dtype="int32", name="x")
    embedding = keras.layers.Embedding(
        NUM_CLASSES, WIDTH, mask_zero=True, name="embedding"
    )
    return keras.Model(x, head(_dense(head)(embedding(x))))


def tied(head):
    """A model of sequences whose head embeds them."""
    x = keras.Input([STEPS], dtype="int32", name="x")
    return keras.Model(x, head(_dense(head)(head(x, embed=True))))


def endpoint(head):
    """A model that takes labels and sample weights, and returns losses."""
    x = keras.Input([WIDTH], name="x")
    labels = keras.Input([], dtype="int64", name="labels")
    weights = keras.Input([], name="weights")
    losses = head(_dense(head)(x), labels=labels, sample_weight=weights)
    return keras.Model([x, labels, weights], losses)


def bags(head):
    """A model of weighted bags of ids."""
    ids = keras.Input([BAG], dtype="int64", name="ids")
    weights = keras.Input([BAG], name="weights")
    return keras.Model([ids, weights], head([ids, weights]))


def _dense(head):
    return keras.layers.Dense(
        WIDTH, activation="tanh", dtype=head.dtype_policy, name="dense"
    )
