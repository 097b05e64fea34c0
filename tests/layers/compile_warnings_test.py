"""Warnings of optimizers that train a head badly."""

import math
import warnings

import keras
import pytest

from tests.support import heads_by_name
from tf_hsm import _compiled_model
from tf_hsm.optimizers import SGD, LazyAdam, LossScaleOptimizer


@pytest.fixture
def many(monkeypatch):
    """Lets small tables count as large ones."""
    monkeypatch.setattr(_compiled_model, "MANY_NUMBERS", 100)


def made(name, of_model, endpoint=False, **options):
    """Returns a model with a head of a kind, and arguments of `fit`."""
    head = heads_by_name.make(name, **options)
    x = heads_by_name.inputs(name).numpy()
    inputs = keras.Input(x.shape[1:], dtype=x.dtype)
    labels = heads_by_name.labels(name)
    data = {"x": x, "y": labels}
    if endpoint:
        y = keras.Input(labels.shape[1:], dtype="int64")
        model = keras.Model([inputs, y], head(inputs, y))
        model.compile(of_model, run_eagerly=True)
        data = {"x": [x, labels]}
    else:
        model = keras.Model(inputs, head(inputs))
        model.compile(of_model, head.loss, run_eagerly=True)
    return model, {**data, "batch_size": len(x), "verbose": 0}


def told(model, data, **options):
    """Returns the warnings of `fit` about the head."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(**data, **options)
    texts = [str(w.message) for w in found if w.category is UserWarning]
    return [t for t in texts if t.startswith(f"{model.layers[-1].name}: ")]


@pytest.mark.parametrize("endpoint", [False, True])
@pytest.mark.parametrize("name", heads_by_name.NAMES)
def test_dense_work(name, endpoint, many):
    """Once, by name, with both remedies."""
    model, data = made(name, "adam", endpoint)
    head = model.layers[-1]
    (text,) = told(model, data)
    numbers = sum(math.prod(v.shape) for v in head.row_variables())
    assert text.startswith(
        f"{head.name}: Keras' Adam reads and writes all {numbers:,} numbers of "
        "this layer's tables at every step; compile with tf_hsm.optimizers."
        "LazyAdam"
    )
    has_own = name != "SampledSoftmax"
    assert ('own, optimizer="rowwise_adagrad"' in text) == has_own
    assert not told(model, data)
    model.evaluate(**data)


def test_small_tables_are_no_matter():
    assert not told(*made("HierarchicalSoftmax", "adam"))


OPTIMIZERS = [
    (lambda: keras.optimizers.SGD(0.1), None),
    (lambda: keras.optimizers.SGD(0.1, clipnorm=1.0), None),
    (lambda: keras.optimizers.SGD(0.1, momentum=0.9), "SGD"),
    (lambda: keras.optimizers.SGD(0.1, weight_decay=0.1), "SGD"),
    (lambda: keras.optimizers.Adagrad(0.1), "Adagrad"),
    (lambda: LazyAdam(0.1), None),
    (lambda: SGD(0.1, global_clipnorm=1.0), None),
    (
        lambda: keras.optimizers.LossScaleOptimizer(SGD(0.1)),
        "LossScaleOptimizer(optimizer)",
    ),
    (lambda: LossScaleOptimizer(SGD(0.1)), None),
    (
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1)),
        "LazyAdam",
    ),
]


@pytest.mark.parametrize("make, word", OPTIMIZERS)
def test_which_optimizers(make, word, many):
    texts = told(*made("HierarchicalSoftmax", make()))
    assert len(texts) == (word is not None)
    assert all(f"tf_hsm.optimizers.{word}" in text for text in texts)


def test_frozen_heads_and_heads_with_optimizers_are_fine(many):
    assert not told(*made("HierarchicalSoftmax", "adam", optimizer="sgd"))
    model, data = made("HierarchicalSoftmax", "adam")
    model.layers[-1].trainable = False
    inputs = model.inputs[0]
    below = keras.layers.Dense(heads_by_name.WIDTH)
    head = model.layers[-1]
    model = keras.Model(inputs, head(below(inputs)))
    model.compile("adam", head.loss)
    assert not told(model, data)


@pytest.mark.parametrize("name", ["HierarchicalSoftmax", "AdaptiveSoftmax"])
def test_tables_on_devices(name, many):
    """What would be fetched from them."""
    (text,) = told(*made(name, "adam", devices=["CPU:0"]))
    assert "and fetches these tables from their devices; compile with" in text
    clipped = LazyAdam(0.1, global_clipnorm=1.0)
    (text,) = told(*made(name, clipped, devices=["CPU:0"]))
    assert "global_clipnorm fetches the gradients of all touched rows" in text
    lazy = LazyAdam(0.1)
    assert not told(*made(name, lazy, devices=["CPU:0"]))
