"""Keras' legacy `.h5` files: refused by a head with another tree, too."""

import keras
import numpy as np
import pytest

from tests.layers.row_order_test import HEADS, TREES
from tests.support.training import assert_same, layer_step
from tf_hsm import layers
from tf_hsm.layers.saved_rows import SavedRows

REFUSED = pytest.raises(ValueError, match="of a head with another tree")


def model_of(name, tree, nested=False):
    """A body and a head, whose names are the same in every model."""
    make, _ = HEADS[name]
    config = make(tree).get_config()
    head = type(make(tree)).from_config({**config, "name": "head"})
    embeds = isinstance(head, layers.EmbeddingSoftmax)
    inputs = keras.Input([], dtype="int64") if embeds else keras.Input([12])
    body = [] if embeds else [keras.layers.Dense(12, name="body")]
    if nested:
        within = keras.Input(inputs.shape[1:], dtype=inputs.dtype)
        inner = keras.Sequential([within, *body, head], name="inner")
        return keras.Model(inputs, inner(inputs))
    return keras.Sequential([inputs, *body, head])


@pytest.mark.parametrize("by_name", [None, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("name", HEADS)
def test_whole_models(name, nested, by_name, tmp_path):
    _, (its, another) = HEADS[name]
    model, same, other = (
        model_of(name, x, nested) for x in (its, its, another)
    )
    path = tmp_path / "model.h5"
    model.save(path)
    same.load_weights(path, by_name=by_name)
    for copy in (same, keras.models.load_model(path)):
        assert_same(model.variables, copy.variables)
    before = head_of(other).get_weights()
    with REFUSED:
        other.load_weights(path, by_name=by_name)
    for now, old in zip(head_of(other).get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, old)


def head_of(model):
    last = model.layers[-1]
    return last.layers[-1] if isinstance(last, keras.Model) else last


def test_files_that_do_not_say(tmp_path, monkeypatch):
    """They are refused: another tree may have weights of the same shapes."""
    model, other = (model_of("hierarchical", tree) for tree in TREES)
    path = tmp_path / "model.h5"
    with monkeypatch.context() as patched:
        patched.setattr(SavedRows, "in_legacy_files", lambda saved: [])
        model.save(path)
    before = other.get_weights()
    with pytest.raises(ValueError, match=r"expects 3 weight.*Received 2"):
        other.load_weights(path)
    for now, old in zip(other.get_weights()[2:], before[2:], strict=True):
        np.testing.assert_array_equal(now, old)


@pytest.mark.parametrize("rule", ["adagrad", "lazy_adam", "sgd"])
def test_state_of_the_optimizer(rule, tmp_path):
    """Training goes on as without the file."""
    x = np.random.default_rng(0).normal(size=[16, 12]).astype("f4")
    labels = np.arange(16)
    heads = [
        layers.HierarchicalSoftmax(TREES[0], optimizer=rule, name="head")
        for _ in range(2)
    ]
    model, other = (
        keras.Sequential([keras.Input([12]), head]) for head in heads
    )
    for _ in range(3):
        layer_step(heads[0], x, labels)
    model.save(tmp_path / "model.h5")
    other.load_weights(tmp_path / "model.h5")
    loaded = keras.models.load_model(tmp_path / "model.h5")
    for head in (*heads, loaded.layers[-1]):
        layer_step(head, x, labels)
    assert heads[0].optimizer.iterations == 4
    for head in (heads[1], loaded.layers[-1]):
        assert_same(heads[0].variables, head.variables)
        assert_same(heads[0].optimizer.variables, head.optimizer.variables)
