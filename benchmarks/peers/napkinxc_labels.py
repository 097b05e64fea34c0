"""A probabilistic label tree of napkinXC, trained on given examples."""

import importlib.metadata
import tempfile

import numpy as np
from napkinxc.models import PLT
from scipy.sparse import csr_matrix

from benchmarks.peers import label_runs


class Implementation:
    """See `common.peer_process`; `label_trees` makes the spec."""

    def __init__(self, spec):
        """Reads the examples."""
        self._data = dict(np.load(spec["data"]))
        self._nodes = [tuple(node) for node in spec["nodes"]]
        self._threads = spec["threads"]
        self.facts = {
            "version": importlib.metadata.version("napkinxc"),
            # A bias is the weight of one more feature.
            "parameters": len(self._nodes)
            * (1 + self._data["train_inputs"].shape[1]),
        }

    def run(self, phase, turn):
        """Trains, and finds the 5 best labels of the tests."""
        del phase, turn
        with tempfile.TemporaryDirectory() as folder:
            return label_runs.run(
                lambda: self._train(folder), self._find, self._data
            )

    def _train(self, folder):
        tree = PLT(
            folder, tree_structure=self._nodes, threads=self._threads, seed=0
        )
        labels = [row[row >= 0].tolist() for row in self._data["train_labels"]]
        tree.fit(csr_matrix(self._data["train_inputs"]), labels)
        return tree

    def _find(self, tree):
        found = tree.predict(csr_matrix(self._data["test_inputs"]), top_k=5)
        return [list(map(int, labels)) for labels in found]
