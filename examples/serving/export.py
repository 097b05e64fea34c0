r"""Exports a model for serving: one that `bazel run //:train` saved, or a toy.

bazel run //examples/serving:export
bazel run //examples/serving:export -- --model=lm_model --path=lm_served

README.md beside this file says what is exported.
"""

import os
import sys

import keras
import numpy as np

import tf_hsm
from examples.common import files, program
from examples.language_model import checkpoint
from examples.language_model import model as model_lib
from tf_hsm import serving

_TOKENS = 1_000
_FACTOR = 997
flags = program.Flags()

_MODEL = flags.DEFINE_string(
    "model",
    "",
    "Folder of a run, the --save_dir of //:train; if empty, a toy is trained.",
)
_PATH = flags.DEFINE_string("path", "served_model", "Folder to make.")
_K = flags.define_count("k", 10, "Classes in an answer.")
_CLASSES = flags.DEFINE_integer(
    "classes", 100_000, "Classes of the toy.", lower_bound=1_000
)


def main():
    """Exports as the flags say; bad input ends in one line and status 1."""
    try:
        if _MODEL.value:
            export_run(_MODEL.value, _PATH.value, _K.value)
        else:
            serving.export(toy(_CLASSES.value), _PATH.value, k=_K.value)
    except (OSError, TypeError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(f"Exported to {_PATH.value}")


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


if __name__ == "__main__":
    program.run(main, flags)
