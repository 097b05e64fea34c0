"""Trees of Omikuji, trained on a data set of extreme classification."""

import importlib.metadata
import itertools
import pathlib
import tempfile
import time

import numpy as np
import omikuji


class Implementation:
    """See `benchmarks.common.peer_process`.

    The `spec` has "data", a file of `benchmarks.label_tree.extreme`, and
    "trees", the number of trees.
    """

    def __init__(self, spec):
        """Reads the examples."""
        self._data = dict(np.load(spec["data"]))
        self._threads = spec["threads"]
        self._settings = omikuji.Model.default_hyper_param()
        self._settings.n_trees = spec["trees"]
        self.facts = {
            "version": importlib.metadata.version("omikuji"),
            "parameters": None,
        }

    def run(self, phase, turn):
        """Trains; "found" are the 5 best labels `[n, 5]` of the tests."""
        del phase, turn
        data = self._data
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "train.txt")
            _write(data, path)
            seconds, cpu_seconds = time.perf_counter(), time.process_time()
            model = omikuji.Model.train_on_data(
                str(path), self._settings, n_threads=self._threads
            )
            seconds = time.perf_counter() - seconds
            cpu_seconds = time.process_time() - cpu_seconds
            model.save(str(pathlib.Path(folder, "model")))
            size = sum(
                file.stat().st_size
                for file in pathlib.Path(folder, "model").iterdir()
            )
        starts = data["test_feature_starts"]
        pairs = list(
            zip(
                data["test_feature_ids"].tolist(),
                data["test_feature_values"].tolist(),
                strict=True,
            )
        )
        inputs = [pairs[i:j] for i, j in itertools.pairwise(starts)]
        search = time.process_time()
        found = [
            [label for label, _ in model.predict(x, top_k=5)] for x in inputs
        ]
        search = time.process_time() - search
        return {
            "seconds": seconds,
            "pairs": len(data["train_label_starts"]) - 1,
            "cpu_seconds": cpu_seconds,
            "ms": 1e3 * search / len(found),
            "bytes": size,
            "found": [(labels + 5 * [-1])[:5] for labels in found],
        }


def _write(data, path):
    """Writes the training data as the text that Omikuji reads."""
    labels, features = data["train_label_starts"], data["train_feature_starts"]
    with open(path, "w") as file:
        sizes = data["num_features"], data["num_labels"]
        file.write(f"{len(labels) - 1} {sizes[0]} {sizes[1]}\n")
        for i in range(len(labels) - 1):
            these = data["train_label_ids"][labels[i] : labels[i + 1]]
            line = [",".join(map(str, these))]
            for j in range(features[i], features[i + 1]):
                value = data["train_feature_values"][j]
                line.append(f"{data['train_feature_ids'][j]}:{value:.7g}")
            file.write(" ".join(line) + "\n")
