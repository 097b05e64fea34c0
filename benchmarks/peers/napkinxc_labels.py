"""A probabilistic label tree of napkinXC, trained on given examples."""

import importlib.metadata
import tempfile

from napkinxc.models import PLT
from scipy.sparse import csr_matrix

from benchmarks.peers import label_runs


class Implementation(label_runs.Implementation):
    """See `common.peer_process`; `label_trees` makes the spec."""

    def __init__(self, spec):
        """Reads the examples."""
        super().__init__(spec, importlib.metadata.version("napkinxc"))
        self._nodes = [tuple(node) for node in spec["nodes"]]
        self._folder = tempfile.TemporaryDirectory()

    def _train(self):
        tree = PLT(
            self._folder.name,
            tree_structure=self._nodes,
            threads=self.spec["threads"],
            seed=0,
        )
        labels = [row[row >= 0].tolist() for row in self.data["train_labels"]]
        tree.fit(csr_matrix(self.data["train_inputs"]), labels)
        return tree

    def _find(self, tree):
        found = tree.predict(csr_matrix(self.data["test_inputs"]), top_k=5)
        return [list(map(int, labels)) for labels in found]
