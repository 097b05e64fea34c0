"""Replicas without a label in a part of a head: rules see no row there."""

import contextlib
import functools
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import replicas
from tests.support.training import assert_near

NUM_CLASSES, WIDTH = 24, 3
TREE = tf_hsm.Tree.two_level(NUM_CLASSES)
HEADS = {
    # Five classes stay in the shortlist, and the others in one tail.
    "adaptive": functools.partial(
        tf_hsm.layers.AdaptiveSoftmax, NUM_CLASSES, cutoffs=[5], div_value=1
    ),
    "tree": functools.partial(tf_hsm.layers.HierarchicalSoftmax, TREE),
    "embeddings": functools.partial(
        tf_hsm.layers.EmbeddingSoftmax, TREE, num_embeddings=9, width=WIDTH
    ),
    "label_tree": functools.partial(tf_hsm.layers.LabelTree, TREE),
}
RULES = {
    "momentum": lambda: tf_hsm.optimizers.SGD(0.1, momentum=0.9),
    # Replicas clip their own gradients, so the bound is not reached.
    "clipped": lambda: tf_hsm.optimizers.SGD(
        0.1, momentum=0.9, nesterov=True, global_clipnorm=1e6
    ),
    "adam": lambda: tf_hsm.optimizers.LazyAdam(0.1, sparse_beta_1=0.9),
    "decay": lambda: tf_hsm.optimizers.Adagrad(0.1, weight_decay=0.1),
    "scaled": lambda: tf_hsm.optimizers.LossScaleOptimizer(
        tf_hsm.optimizers.RowwiseAdagrad(0.1, weight_decay=0.1),
        initial_scale=8.0,
    ),
}


@functools.cache
def mirrored():
    return tf.distribute.MirroredStrategy(replicas.CPUS)


def assert_as_one(make_model, data, eager):
    """Asserts that replicas train a model as one does, which runs eagerly.

    Weights and slots are equal, in float64.
    """
    states = []
    for strategy in (None, mirrored()):
        scope = strategy.scope() if strategy else contextlib.nullcontext()
        with scope:
            keras.utils.set_random_seed(1)
            model = make_model()
        model.run_eagerly = eager or strategy is None
        model.fit(**data, shuffle=False, verbose=0)
        slots = (v.numpy() for v in model.optimizer.variables)
        states.append([*model.get_weights(), *slots])
    assert_near(states[1], states[0], 1e-12)


@pytest.mark.parametrize(
    "head, rule, eager",
    [
        ("adaptive", "momentum", False),
        ("adaptive", "clipped", True),
        ("adaptive", "adam", True),
        ("adaptive", "decay", True),
        ("adaptive", "scaled", False),
        ("tree", "momentum", True),
        ("tree", "scaled", True),
        ("embeddings", "adam", True),
        ("label_tree", "decay", False),
    ],
)
def test_rows_that_no_label_touches_stay(head, rule, eager):
    """A step everywhere, and three that have no label that counts.

    For an `AdaptiveSoftmax` the last three have no label in the tail.
    """
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=[24, WIDTH]), rng.permutation(NUM_CLASSES)
    labels[6:], options = -1, {"ignore_class": -1}
    if head == "embeddings":
        x = rng.integers(9, size=24)
    elif head == "adaptive":
        labels[:6], options = [0, 7, 5, 23, 1, 11], {}
        labels[6:] = rng.integers(5, size=18)
    elif head == "label_tree":
        labels, options = labels[:, np.newaxis], {}

    def make_model():
        layer = HEADS[head](dtype="float64", **options)
        inputs = keras.Input(x.shape[1:], dtype=x.dtype.name)
        model = keras.Model(inputs, layer(inputs))
        model.compile(RULES[rule](), layer.loss)
        return model

    assert_as_one(make_model, {"x": x, "y": labels, "batch_size": 6}, eager)


def test_a_head_that_is_called_twice():
    """The slices of both calls are joined, with a row added in each."""

    def make_model():
        layer = HEADS["adaptive"](dtype="float64")
        inputs = [keras.Input([WIDTH], dtype="float64") for _ in range(2)]
        model = keras.Model(inputs, [layer(x) for x in inputs])
        model.compile(RULES["momentum"](), [layer.loss, layer.loss])
        return model

    rng = np.random.default_rng(0)
    x = rng.normal(size=[2, 20, WIDTH])
    # The tail has labels in both, in one and in none of the calls.
    one = [0, 7, 1, 9, 2, 3, 4, 0, *rng.integers(5, size=12)]
    two = [8, 7, 1, 9, 9, 8, 23, 6, *rng.integers(5, size=12)]
    labels = [np.array(one), np.array(two)]
    data = {"x": [*x], "y": labels, "batch_size": 4}
    assert_as_one(make_model, data, eager=True)


@pytest.mark.parametrize("eager", [False, True])
def test_bags_without_ids(eager):
    """TensorFlow crashed where no replica looks up an embedding."""

    def make_model():
        layer = HEADS["embeddings"](padding_id=-1, dtype="float64")
        ids = keras.Input([3], dtype="int64")
        model = keras.Model(ids, layer(ids))
        model.compile(RULES["momentum"](), layer.loss)
        return model

    x = np.full([12, 3], -1)
    x[:4] = np.random.default_rng(0).integers(9, size=[4, 3])
    data = {"x": x, "y": np.arange(12), "batch_size": 4}
    assert_as_one(make_model, data, eager)


def test_a_head_that_embeds():
    """Its tail has tokens, labels, both or none of them in a step."""

    def make_model():
        layer = HEADS["adaptive"](width=WIDTH, dtype="float64")
        tokens = keras.Input([], dtype="int64")
        model = keras.Model(tokens, layer(layer(tokens, embed=True)))
        model.compile(RULES["momentum"](), layer.loss)
        return model

    x = np.array([7, 0, 11, 3, 9, 6, 8, 5, *[1] * 4, 0, 1, 2, 3])
    y = np.array([6, 1, 0, 8, *[2] * 4, 9, 7, 23, 5, 0, 1, 4, 3])
    data = {"x": x, "y": y, "batch_size": 4}
    assert_as_one(make_model, data, eager=False)


@pytest.mark.parametrize(
    "make, remedy",
    [
        (keras.optimizers.Adam, "tf_hsm.optimizers.LazyAdam"),
        (keras.optimizers.RMSprop, "tf_hsm.optimizers.RMSprop"),
        (keras.optimizers.Adagrad, "tf_hsm.optimizers.Adagrad"),
        (keras.optimizers.SGD, None),
        (lambda: keras.optimizers.SGD(momentum=0.9), None),
        (tf_hsm.optimizers.LazyAdam, None),
    ],
)
def test_optimizers_that_square_each_replica_alone(make, remedy):
    """They differ from one replica: a warning, once."""
    with mirrored().scope():
        layer = tf_hsm.layers.HierarchicalSoftmax(TREE)
        model = keras.Sequential([keras.Input([WIDTH]), layer])
        model.compile(make(), layer.loss, run_eagerly=True)
    x, labels = np.ones([4, WIDTH], np.float32), np.arange(4)
    texts = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model.fit(x, labels, verbose=0)
        texts += [str(w.message) for w in found if w.category is UserWarning]
    if remedy is None:
        assert not texts
        return
    (text,) = texts
    assert text == (
        f"{layer.name}: Keras' {make.__name__} takes the sparse gradient of "
        "each of the 2 replicas by itself, so that training differs from "
        f"training on one replica; compile with {remedy}, which sums the rows "
        "of all replicas first"
    )
