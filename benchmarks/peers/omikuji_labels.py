"""The trees of Omikuji, trained on given examples."""

import importlib.metadata
import pathlib
import tempfile

import numpy as np
import omikuji

from benchmarks.peers import label_runs


class Implementation:
    """See `common.peer_process`; `label_trees` makes the spec."""

    def __init__(self, spec):
        """Reads the examples."""
        self._data = dict(np.load(spec["data"]))
        self._num_labels = spec["num_labels"]
        self._threads = spec["threads"]
        self.facts = {
            "version": importlib.metadata.version("omikuji"),
            "parameters": None,
        }

    def run(self, phase, turn):
        """Trains, and finds the 5 best labels of the tests."""
        del phase, turn
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "train.txt")
            self._write(path)
            return label_runs.run(
                lambda: omikuji.Model.train_on_data(
                    str(path),
                    omikuji.Model.default_hyper_param(),
                    n_threads=self._threads,
                ),
                self._find,
                self._data,
            )

    def _find(self, model):
        found = []
        for inputs in self._data["test_inputs"].tolist():
            best = model.predict(list(enumerate(inputs)), top_k=5)
            labels = [label for label, _ in best]
            found.append((labels + 5 * [-1])[:5])
        return found

    def _write(self, path):
        """Writes the training data as the text that Omikuji reads."""
        inputs = self._data["train_inputs"]
        with open(path, "w") as file:
            sizes = *inputs.shape, self._num_labels
            print(*sizes, file=file)
            for x, labels in zip(
                inputs, self._data["train_labels"], strict=True
            ):
                names = ",".join(map(str, labels[labels >= 0]))
                features = (f"{i}:{value:.7g}" for i, value in enumerate(x))
                print(names, *features, file=file)
