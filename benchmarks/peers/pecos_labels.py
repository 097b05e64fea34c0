"""The linear tree of PECOS, trained on given examples."""

import importlib.metadata

import numpy as np
import scipy.sparse
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel

from benchmarks.peers import label_runs


class Implementation(label_runs.Implementation):
    """See `common.peer_process`; `label_trees` makes the spec."""

    def __init__(self, spec):
        """Reads the examples."""
        super().__init__(spec, importlib.metadata.version("libpecos"))
        self._train_inputs, self._test_inputs = (
            scipy.sparse.csr_matrix(self.data[name])
            for name in ("train_inputs", "test_inputs")
        )
        labels = self.data["train_labels"]
        examples, _ = pairs = np.nonzero(labels >= 0)
        self._labels = scipy.sparse.csr_matrix(
            (np.ones(len(examples), np.float32), (examples, labels[pairs])),
            shape=[len(labels), spec["num_labels"]],
        )

    def _train(self):
        vectors = LabelEmbeddingFactory.create(
            self._labels, self._train_inputs, method="pifa"
        )
        return XLinearModel.train(
            self._train_inputs,
            self._labels.tocsc(),
            Indexer.gen(vectors, threads=self.spec["threads"]),
            threads=self.spec["threads"],
        )

    def _find(self, model):
        best = model.predict(self._test_inputs, only_topk=5, threads=1)
        return [_in_order(best[i]) for i in range(best.shape[0])]


def _in_order(row):
    """The columns of a sparse row, the largest first; 5 with -1."""
    order = np.argsort(-row.data, kind="stable")
    return (row.indices[order].tolist() + 5 * [-1])[:5]
