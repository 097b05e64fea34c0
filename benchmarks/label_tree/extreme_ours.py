"""The model of `examples/extreme_classification`, trained on given examples."""

import time

import keras
import numpy as np

import tf_hsm
from benchmarks.common import machine
from examples.extreme_classification import bags, thresholds, train


class Implementation:
    """See `benchmarks.common.peer_process`.

    The `spec` has "data", a file of `benchmarks.label_tree.extreme`, and
    "epochs".
    """

    def __init__(self, spec):
        """Reads the examples."""
        machine.use_threads(spec["threads"])
        data = np.load(spec["data"])
        self._settings = train.Settings()
        if spec["epochs"]:
            self._settings = self._settings._replace(epochs=spec["epochs"])
        self._train, self._test = (
            tf_hsm.datasets.ExtremeData(
                num_features=int(data["num_features"]),
                num_labels=int(data["num_labels"]),
                **{
                    name: data[f"{part}_{name}"]
                    for name in (
                        "label_starts",
                        "label_ids",
                        "feature_starts",
                        "feature_ids",
                        "feature_values",
                    )
                },
            )
            for part in ("train", "test")
        )
        self.facts = {"version": tf_hsm.__version__, "parameters": None}

    def run(self, phase, turn):
        """Trains; "found" are the 5 best labels `[n, 5]` of the tests."""
        del phase, turn
        keras.utils.set_random_seed(0)
        seconds, cpu_seconds = time.perf_counter(), time.process_time()
        model = train.train(self._train, self._settings)
        seconds = time.perf_counter() - seconds
        cpu_seconds = time.process_time() - cpu_seconds
        inputs = bags.of(self._test)
        thresholds.best_labels(
            model, [x[:1] for x in inputs], 5
        )  # traces the graphs
        search = time.process_time()
        _, found = thresholds.best_labels(model, inputs, 5)
        search = time.process_time() - search
        head = model.get_layer("head")
        (vectors,) = (
            layer.vectors
            for layer in model.layers
            if isinstance(layer, bags.BagOfFeatures)
        )
        parameters = sum(
            np.prod(weights.shape)
            for weights in (vectors, head.kernel, head.bias)
        )
        return {
            "seconds": seconds,
            "pairs": self._settings.epochs * len(self._train),
            "cpu_seconds": cpu_seconds,
            "ms": 1e3 * search / len(found),
            "bytes": 4 * int(parameters),
            "found": found.tolist(),
        }
