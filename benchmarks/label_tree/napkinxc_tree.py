"""A probabilistic label tree of napkinXC, trained on given examples."""

import importlib.metadata
import tempfile
import time

import numpy as np
from napkinxc.models import PLT
from scipy.sparse import csr_matrix


class Implementation:
    """See `benchmarks.common.peer_process`.

    The `spec` has "data", as `ours` takes it, and "nodes", the same tree as
    napkinXC takes it.
    """

    def __init__(self, spec):
        """Reads the examples."""
        self._data = np.load(spec["data"])
        self._nodes = [tuple(node) for node in spec["nodes"]]
        self._threads = spec["threads"]
        self.facts = {
            "version": importlib.metadata.version("napkinxc"),
            # A bias is the weight of one more feature.
            "parameters": len(self._nodes)
            * (1 + self._data["train_inputs"].shape[1]),
        }

    def run(self, phase, turn):
        """Trains; "found" are the 5 best labels `[B, 5]` of the tests.

        "nodes" are, of a few examples, the nodes that are trained on it and
        whether they are positive.
        """
        del phase, turn
        data = self._data
        labels = [row[row >= 0].tolist() for row in data["train_labels"]]
        inputs = csr_matrix(data["train_inputs"])
        with tempfile.TemporaryDirectory() as folder:
            tree = PLT(
                folder,
                tree_structure=self._nodes,
                threads=self._threads,
                seed=0,
            )
            nodes = tree.get_nodes_to_update(labels[: len(data["nodes_of"])])
            start = time.perf_counter()
            tree.fit(inputs, labels)
            seconds = time.perf_counter() - start
            found = tree.predict(csr_matrix(data["test_inputs"]), top_k=5)
        return {
            "seconds": seconds,
            "pairs": len(labels),
            "found": [list(map(int, its)) for its in found],
            "nodes": [[list(map(int, n)) for n in its] for its in nodes],
        }
