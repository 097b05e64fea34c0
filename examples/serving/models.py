"""What is exported: a toy, or the model in the folder of a run."""

import os

import keras
import numpy as np

import tf_hsm
from examples.common import files
from examples.language_model import checkpoint
from examples.language_model import model as model_lib
from tf_hsm import serving

_TOKENS = 1_000
_FACTOR = 997


def toy(num_classes):
    """A model that has learned which class follows each of 1,000 tokens.

    After token t comes class 997 t (modulo the number of classes).
    """
    tree = tf_hsm.Tree.two_level(num_classes)
    head = tf_hsm.layers.HierarchicalSoftmax(tree, name="head")
    tokens = keras.Input([None], dtype="int32", name="tokens")
    hidden = keras.layers.Embedding(_TOKENS, 64)(tokens)
    model = keras.Model(tokens, head(hidden))
    model.compile(keras.optimizers.SGD(20.0), head.loss)
    x = np.random.default_rng(0).integers(_TOKENS, size=(5_000, 10))
    model.fit(x, x * _FACTOR % num_classes, batch_size=50, epochs=3, verbose=2)
    return model


def stateless(model):
    """A copy whose recurrent layers begin every request at zero.

    It takes texts of any length, and any number of them.

    Args:
        model: what `examples.language_model.model.body` returns.
    """

    def copy(layer):
        config = layer.get_config()
        if "stateful" in config:
            config["stateful"] = False
        return type(layer).from_config(config)

    tokens = keras.Input([None], dtype="int32", name="tokens")
    clone = keras.models.clone_model(
        model, input_tensors=tokens, clone_function=copy
    )
    clone.set_weights(model.get_weights())
    return clone


def export_run(folder, path, k):
    """Exports the model in the folder of a run, with its vocabulary.

    The labels are an input of that model, and its output losses. What is served
    is the part below its head, and the head.
    """
    model, run = checkpoint.load(folder)
    body = stateless(model_lib.body(model))
    serving.export(body, path, head=model.get_layer("head"), k=k)
    words = os.path.join(path, "assets.extra", "vocabulary.json")
    files.write_json(words, run.words)
