"""Makes the files beside it with the tf_hsm at hand.

    python tests/golden/export/make.py

The files were made with tf_hsm 0.1.0, TensorFlow 2.21.0 and Keras 3.15.1, and
are made anew only where exports of that version need not load any more:

    model     a SavedModel of tf_hsm.serving.export, without the op library
    data.npz  inputs of its signatures, and the answers of the layer
"""

import pathlib
import shutil

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from tf_hsm import serving

FOLDER = pathlib.Path(__file__).parent
CLASSES = 40


def main():
    """Exports a model, and writes down what its head answers."""
    keras.utils.set_random_seed(0)
    tree = tf_hsm.Tree.huffman(1 + np.arange(CLASSES) ** 2, branching=3)
    head = tf_hsm.layers.HierarchicalSoftmax(
        tree,
        kernel_initializer=keras.initializers.RandomNormal(stddev=1.0),
        bias_initializer=keras.initializers.RandomNormal(stddev=1.0),
    )
    tokens = keras.Input([None], dtype="int32", name="tokens")
    hidden = keras.layers.Embedding(CLASSES, 8)(tokens)
    hidden = keras.layers.Dense(8, activation="tanh")(20.0 * hidden)
    model = keras.Model(tokens, head(hidden))

    shutil.rmtree(FOLDER / "model", ignore_errors=True)
    serving.export(model, FOLDER / "model", k=5)
    # The version under test has an op library of its own.
    shutil.rmtree(FOLDER / "model" / "assets.extra")
    # Empty, and git keeps no empty folders.
    (FOLDER / "model" / "assets").rmdir()

    rng = np.random.default_rng(0)
    batch = rng.integers(CLASSES, size=[7, 3]).astype(np.int32)
    classes = rng.integers(CLASSES, size=[7, 3, 4])
    inputs = keras.Model(tokens, hidden)(batch)
    best = head.top_k(inputs, 5)
    options = {
        "seed": 3,
        "num_samples": 6,
        "temperature": 1.5,
        "top_k": 20,
        "top_p": 0.95,
    }
    np.savez_compressed(
        FOLDER / "data.npz",
        tokens=batch,
        classes=classes,
        best_classes=best.classes,
        best_log_probs=best.log_probs,
        log_probs=head.log_prob(tf.constant(classes), inputs),
        drawn_classes=head.sample(inputs, **options),
        **options,
    )


if __name__ == "__main__":
    main()
