"""Which models grow, by which arguments."""

import itertools

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.models import (
    NUM_CLASSES,
    STEPS,
    TREE,
    WIDTH,
    head_of,
    make_head,
)
from tf_hsm import Tree
from tf_hsm.layers import AdaptiveSoftmax

GROWN = TREE.grow(4)


class Subclassed(keras.Model):
    """A model whose layers are not known before it is called."""

    def __init__(self):
        super().__init__(name="mine")
        self.head = make_head()

    def call(self, inputs):
        return self.head(inputs)


@keras.saving.register_keras_serializable("tests")
class Around(keras.layers.Layer):
    """A layer with a head of its own within."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.head = make_head(name="within")

    def build(self, shape):
        self.head.build(shape)

    def call(self, inputs):
        return self.head(inputs)

    def compute_output_shape(self, shape):
        return shape[:-1]


def called(model):
    model(np.zeros([1, WIDTH], "f4"))
    return model


def of_layers(*layers):
    return keras.Sequential([keras.Input([WIDTH]), *layers])


def trained(optimizer):
    model = of_layers(make_head())
    model.compile(optimizer, head_of(model).loss)
    model.optimizer.build(model.trainable_variables)
    return model


def frozen_since():
    model = of_layers(keras.layers.Dense(WIDTH, name="dense"), make_head())
    model.compile("adam", head_of(model).loss)
    model.optimizer.build(model.trainable_variables)
    model.layers[0].trainable = False
    return model


def two_heads():
    x = keras.Input([WIDTH])
    heads = make_head(name="one"), make_head(name="two")
    return keras.Model(x, [head(x) for head in heads])


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: called(Subclassed()), ValueError, "mine is neither a Sequ"),
        (
            lambda: of_layers(Around(name="around")),
            ValueError,
            "within is within a layer that only its own class can copy",
        ),
        (
            lambda: of_layers(keras.layers.Dense(3)),
            ValueError,
            "has no head of tf_hsm.layers",
        ),
        (
            lambda: of_layers(
                AdaptiveSoftmax(30, cutoffs=[5], name="adaptive")
            ),
            ValueError,
            "num_classes must be an integer, not Tree",
        ),
        (two_heads, ValueError, "has the heads one, two; say by head="),
        (
            lambda: trained(keras.optimizers.Adafactor()),
            ValueError,
            "adafactor.* has a state of rows together",
        ),
        (
            lambda: trained(keras.optimizers.Adam(use_ema=True)),
            ValueError,
            "adam.* has use_ema",
        ),
        (frozen_since, ValueError, "adam.* was built with other variables"),
    ],
    ids=itertools.count(),
)
def test_refused_models(make, error, message):
    model = make()
    with pytest.raises(error, match=message):
        tf_hsm.grow(model, GROWN)


def test_one_of_two_heads():
    model = two_heads()
    grown = tf_hsm.grow(model, GROWN, head=model.layers[2])
    sizes = {x.name: x.num_classes for x in grown.layers[1:]}
    assert sizes == {"one": NUM_CLASSES, "two": NUM_CLASSES + 4}


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"tree": 7}, TypeError, "tree must be a tf_hsm.Tree"),
        ({"tree": Tree.two_level(29)}, ValueError, "29 classes, fewer than"),
        ({"embeddings": ["none"]}, ValueError, "has no layer 'none'"),
        ({"embeddings": ["dense"]}, TypeError, "dense is a Dense; embeddings"),
        ({"embeddings": ["lora"]}, ValueError, "lora has other weights"),
        ({"counts": [1, 2]}, ValueError, "counts has 2 entries"),
    ],
    ids=itertools.count(),
)
def test_refused_arguments(options, error, message):
    tokens = keras.Input([STEPS], dtype="int32")
    lora = keras.layers.Embedding(NUM_CLASSES, WIDTH, lora_rank=2, name="lora")
    hidden = keras.layers.Dense(WIDTH, name="dense")(lora(tokens))
    model = keras.Model(tokens, make_head()(hidden))
    with pytest.raises(error, match=message):
        tf_hsm.grow(model, **{"tree": GROWN, **options})
