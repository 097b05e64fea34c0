"""tf_hsm.serving: what is not exported, and what a failed export leaves."""

import os
import pathlib

import keras
import pytest
import tensorflow as tf

from tests.support.models import (
    STEPS,
    WIDTH,
    compile_form,
    endpoint_form,
    hidden_model,
    make_head,
)
from tf_hsm import serving

LIBRARY = os.path.join("assets.extra", "_tf_hsm_ops.so")


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.head = make_head()

    def call(self, inputs):
        return self.head(inputs)


def stateful_model():
    steps = keras.Input(batch_shape=[2, STEPS, WIDTH])
    hidden = keras.layers.GRU(WIDTH, stateful=True)(steps)
    return keras.Model(steps, make_head()(hidden))


def model_with_input(name):
    vectors = keras.Input([WIDTH], name=name)
    return keras.Model(vectors, make_head()(vectors))


def two_heads():
    vectors = keras.Input([WIDTH])
    heads = [make_head(name=name) for name in ("one", "two")]
    return keras.Model(vectors, [head(vectors) for head in heads])


REFUSED = {
    "k = 0 is outside .1, 30.": lambda: (compile_form(), {"k": 0}),
    "k = 31 is outside .1, 30.": lambda: (compile_form(), {"k": 31}),
    "has none; say by head=": lambda: (hidden_model(compile_form()),),
    "has one, two; say by head=": lambda: (two_heads(),),
    r"\(None, 5\), must be the hidden vectors": lambda: (endpoint_form(),),
    "has a state that each call changes": lambda: (stateful_model(),),
    "an input called 'seed'": lambda: (model_with_input("seed"),),
    "called 'threshold'": lambda: (model_with_input("threshold"),),
    "does not know its inputs": lambda: (Subclassed(),),
    "sequential.* does not know": lambda: (keras.Sequential([make_head()]),),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message, tmp_path):
    """What cannot be served is refused in a sentence, and nothing written."""
    model, options = (*REFUSED[message](), {})[:2]
    with pytest.raises(ValueError, match=message):
        serving.export(model, tmp_path / "1", **options)
    assert not list(tmp_path.iterdir())


def test_the_head_must_be_one(tmp_path):
    """Another layer does not know about classes."""
    dense = keras.layers.Dense(3)
    with pytest.raises(TypeError, match=r"a layer of tf_hsm.* is a Dense$"):
        serving.export(hidden_model(compile_form()), tmp_path / "1", head=dense)


def test_the_folder_must_be_new(tmp_path):
    """An export that is being served is not touched."""
    (tmp_path / "1").mkdir()
    with pytest.raises(FileExistsError, match=r"'.*/1' exists already"):
        serving.export(compile_form(), tmp_path / "1")
    assert not list((tmp_path / "1").iterdir())


def test_an_interrupted_export_leaves_no_folder(tmp_path, monkeypatch):
    """The next one clears up what was left beside it."""

    def fail(*unused_arguments):
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(tf.io.gfile, "copy", fail)
        with pytest.raises(OSError, match="no space"):
            serving.export(compile_form(), tmp_path / "1")
    assert not (tmp_path / "1").exists()
    serving.export(compile_form(), str(tmp_path / "1") + "/")
    assert [x.name for x in tmp_path.iterdir()] == ["1"]
    copy = tmp_path / "1" / LIBRARY
    assert (
        copy.read_bytes()
        == pathlib.Path(serving.op_library_path()).read_bytes()
    )
