"""Small models of an `EmbeddingSoftmax`, and bags for them."""

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support.models import NUM_CLASSES, TREE
from tf_hsm.layers import EmbeddingSoftmax

COUNT, WIDTH, LONGEST = 23, 6, 5
PADDING = -1
# What the inputs are.
KINDS = ["ids", "padded", "ragged", "weighted", "ragged_weighted"]


def make_layer(tree=TREE, **options):
    """One whose first gradients are of no variable zero."""
    options = {
        "padding_id": PADDING,
        "embeddings_initializer": keras.initializers.RandomNormal(seed=1),
        "kernel_initializer": keras.initializers.RandomNormal(0, 0.5, seed=2),
        "bias_initializer": keras.initializers.RandomNormal(seed=3),
        **options,
    }
    return EmbeddingSoftmax(tree, num_embeddings=COUNT, width=WIDTH, **options)


def make_inputs(kind, batch=22):
    """Bags of 0 to 5 ids, some twice in a bag, or one id each."""
    rng = np.random.default_rng(0)
    ids = (COUNT * rng.random([batch, LONGEST]) ** 2).astype(np.int64)
    if kind == "ids":
        return ids[:, 0]
    sizes = rng.integers(LONGEST + 1, size=[batch, 1])
    sizes[:2] = [[0], [LONGEST]]
    ids[np.arange(LONGEST) >= sizes] = PADDING
    weights = rng.uniform(0.5, 2, size=ids.shape).astype(np.float32)
    if kind.startswith("ragged"):
        ids, weights = (
            tf.ragged.boolean_mask(values, ids >= 0)
            for values in (ids, weights)
        )
    return [ids, weights] if kind.endswith("weighted") else ids


def make_labels(batch=22):
    return np.random.default_rng(5).integers(NUM_CLASSES, size=batch)


def symbols(kind):
    """What `make_inputs` makes, as inputs of a functional model."""
    options = {
        "shape": [] if kind == "ids" else [None],
        "ragged": kind.startswith("ragged"),
    }
    ids = keras.Input(**options, dtype="int64", name="ids")
    if kind.endswith("weighted"):
        return [ids, keras.Input(**options, name="weights")]
    return ids


def make_model(layer, kind, form="compile", optimizer="sgd"):
    """A compiled model.

    Args:
        layer: From `make_layer`.
        kind: One of KINDS.
        form: "compile", or "endpoint" where labels are an input.
        optimizer: That of the model.
    """
    inputs = symbols(kind)
    if form == "compile":
        model = keras.Model(inputs, layer(inputs))
        perplexity = tf_hsm.metrics.Perplexity(layer)
        model.compile(optimizer, loss=layer.loss, metrics=[perplexity])
        return model
    labels = keras.Input([], dtype="int64", name="labels")
    flat = [*tf.nest.flatten(inputs), labels]
    model = keras.Model(flat, layer(inputs, labels))
    model.compile(optimizer)
    return model


def weights(layer):
    """Embeddings, kernel and bias, whoever trains them."""
    kernel, *bias, embeddings = (v.numpy() for v in layer.row_variables())
    return [embeddings, kernel, *bias]


def state(layer):
    """All that a step moves: variables, slots, number of steps."""
    variables = [] if layer.optimizer is None else layer.optimizer.variables
    others = [v.numpy() for v in variables if v.name != "learning_rate"]
    return [*weights(layer), *map(np.array, others)]
