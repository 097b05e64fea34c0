"""Our label tree, Omikuji's and PECOS's on one data set and equal features."""

import pathlib
import sys
import tempfile

import numpy as np

from benchmarks.common import peer_process
from benchmarks.label_tree import scores
from examples.extreme_classification import data

_PEERS = {
    "ours": ("label_tree.extreme_ours", {}),
    "omikuji, 1 tree": ("label_tree.omikuji_trees", {"trees": 1}),
    "omikuji, 3 trees": ("label_tree.omikuji_trees", {"trees": 3}),
    "pecos": ("label_tree.pecos_trees", {}),
}


def compare(folder, lists, python, threads, epochs=None):
    """Trains all on the same examples.

    Args:
      folder: of the data set, as `examples.extreme_classification.data` reads
        it; Debian's packages if empty.
      lists: the folder of apt's package indexes.
      python: the interpreter that has the peers.
      threads: of each.
      epochs: of ours; None: as many as the example has.

    Returns:
      Name -> {"scores", of `scores.measures`; "cpu_seconds" and "seconds" of
      the training; "ms", of CPU time to find the labels of an example; "bytes"
      of the model; "version"}, or {"missing": module}.
    """
    folder = folder or data.debian_folder(lists)
    train, test = data.read(folder)
    labels = test.labels()
    has_label = (labels >= 0).any(1)
    counts = np.bincount(train.label_ids, minlength=train.num_labels)
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch, "data.npz")
        _save(path, train, test)
        for name, (module, options) in _PEERS.items():
            spec = {
                "data": str(path),
                "threads": threads,
                "epochs": epochs,
                **options,
            }
            interpreter = sys.executable if name == "ours" else python
            try:
                process = peer_process.Process(module, spec, interpreter)
            except ModuleNotFoundError as error:
                results[name] = {"missing": error.name}
                continue
            try:
                trained = process.run("train", 0)
            finally:
                process.close()
            found = np.array(trained.pop("found"))
            results[name] = {
                "scores": scores.measures(
                    labels[has_label], found[has_label], counts, len(train)
                ),
                "version": process.facts["version"],
                **trained,
            }
    return results


def _save(path, train, test):
    arrays = {
        "num_features": train.num_features,
        "num_labels": train.num_labels,
    }
    for part, examples in (("train", train), ("test", test)):
        for name in (
            "label_starts",
            "label_ids",
            "feature_starts",
            "feature_ids",
            "feature_values",
        ):
            arrays[f"{part}_{name}"] = getattr(examples, name)
    np.savez(path, **arrays)
