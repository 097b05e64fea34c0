"""The linear tree of PECOS, trained on a data set of extreme classification."""

import importlib.metadata
import pathlib
import tempfile
import time

import numpy as np
import scipy.sparse
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel


class Implementation:
    """See `benchmarks.common.peer_process`.

    The `spec` has "data", a file of `benchmarks.label_tree.extreme`.
    """

    def __init__(self, spec):
        """Reads the examples."""
        data = np.load(spec["data"])
        self._threads = spec["threads"]
        self._train, self._test = (
            scipy.sparse.csr_matrix(
                (
                    data[f"{part}_feature_values"],
                    data[f"{part}_feature_ids"],
                    data[f"{part}_feature_starts"],
                ),
                shape=[
                    len(data[f"{part}_feature_starts"]) - 1,
                    int(data["num_features"]),
                ],
            )
            for part in ("train", "test")
        )
        ids = data["train_label_ids"]
        self._labels = scipy.sparse.csr_matrix(
            (np.ones(len(ids), np.float32), ids, data["train_label_starts"]),
            shape=[self._train.shape[0], int(data["num_labels"])],
        )
        self.facts = {
            "version": importlib.metadata.version("libpecos"),
            "parameters": None,
        }

    def run(self, phase, turn):
        """Trains; "found" are the 5 best labels `[n, 5]` of the tests."""
        del phase, turn
        seconds, cpu_seconds = time.perf_counter(), time.process_time()
        vectors = LabelEmbeddingFactory.create(
            self._labels, self._train, method="pifa"
        )
        model = XLinearModel.train(
            self._train,
            self._labels.tocsc(),
            Indexer.gen(vectors, threads=self._threads),
            threads=self._threads,
        )
        seconds = time.perf_counter() - seconds
        cpu_seconds = time.process_time() - cpu_seconds
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            size = sum(
                file.stat().st_size
                for file in pathlib.Path(folder).rglob("*")
                if file.is_file()
            )
        search = time.process_time()
        best = model.predict(self._test, only_topk=5, threads=1)
        search = time.process_time() - search
        return {
            "seconds": seconds,
            "pairs": self._train.shape[0],
            "cpu_seconds": cpu_seconds,
            "ms": 1e3 * search / best.shape[0],
            "bytes": size,
            "found": [_in_order(best[i]) for i in range(best.shape[0])],
        }


def _in_order(row):
    """The columns of a sparse row, the largest first; 5 with -1."""
    order = np.argsort(-row.data, kind="stable")
    return (row.indices[order].tolist() + 5 * [-1])[:5]
