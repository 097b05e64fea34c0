"""A label tree of ours, trained on given examples."""

import time

import keras
import numpy as np

import tf_hsm
from benchmarks.common import machine

# Adagrad that begins with nothing does not ask for the scale of gradients.
_RATE, _ACCUMULATOR, _BATCH = 0.5, 1e-6, 100


class Implementation:
    """See `benchmarks.common.peer_process`.

    The `spec` has "data", an .npz file with train and test examples, "tree", a
    file of the tree, and "epochs".
    """

    def __init__(self, spec):
        """Reads the examples."""
        machine.use_threads(spec["threads"])
        self._data = np.load(spec["data"])
        self._epochs = spec["epochs"]
        self._tree = tf_hsm.Tree.load(spec["tree"])
        self.facts = {
            "version": tf_hsm.__version__,
            "parameters": self._tree.num_rows
            * (1 + self._data["train_inputs"].shape[1]),
        }

    def run(self, phase, turn):
        """Trains; "found" are the 5 best labels `[B, 5]` of the tests."""
        del phase, turn
        keras.utils.set_random_seed(0)
        data = self._data
        head = tf_hsm.layers.LabelTree(
            self._tree,
            kernel_initializer="zeros",
            optimizer=tf_hsm.optimizers.Adagrad(
                _RATE, initial_accumulator_value=_ACCUMULATOR
            ),
        )
        width = data["train_inputs"].shape[1]
        model = keras.Sequential([keras.Input([width]), head])
        model.compile("sgd", loss=head.loss)
        start = time.perf_counter()
        model.fit(
            data["train_inputs"],
            data["train_labels"],
            batch_size=_BATCH,
            epochs=self._epochs,
            verbose=0,
        )
        seconds = time.perf_counter() - start
        found = head.top_k(data["test_inputs"], 5).classes.numpy()
        pairs = self._epochs * len(data["train_inputs"])
        return {"seconds": seconds, "pairs": pairs, "found": found.tolist()}
