"""Our label tree beside napkinXC, Omikuji and PECOS on equal examples."""

import pathlib
import sys
import tempfile

import numpy as np

import tf_hsm
from benchmarks.common import peer_process, units
from benchmarks.peers import label_examples

_LABELS, _WIDTH, _MOST = 1_000, 100, 5
_TRAIN, _TEST = 20_000, 5_000
# Name -> module below `benchmarks`, and what to install.
_TREES = {
    "ours": ("peers.our_labels", ""),
    "napkinXC": ("peers.napkinxc_labels", "napkinxc"),
    "Omikuji": ("peers.omikuji_labels", "omikuji"),
    "PECOS": ("peers.pecos_labels", "libpecos"),
}


def compare(python, threads, num_train=_TRAIN, num_labels=_LABELS):
    """Trains all on the same examples.

    Args:
      python: the interpreter that has the peers.
      threads: the number of threads of each.
      num_train: the number of training examples.
      num_labels: the number of labels.

    Returns:
      Name -> {"precisions": P@1, P@3 and P@5 in percent, "version", and the
      times of `label_runs.run`}; or {"missing": a distribution}.
    """
    tree = tf_hsm.Tree.balanced(num_labels, label_examples.GROUP)
    source = label_examples.Source(num_labels, _WIDTH, _MOST)
    train_inputs, train_labels = source.draw(num_train, 1)
    test_inputs, test_labels = source.draw(_TEST, 2)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        data, tree_file = (f"{folder}/{n}.npz" for n in ("data", "tree"))
        np.savez(
            data,
            train_inputs=train_inputs,
            train_labels=train_labels,
            test_inputs=test_inputs,
        )
        tree.save(pathlib.Path(tree_file))
        spec = {
            "data": data,
            "tree": tree_file,
            "nodes": nodes_of(tree),
            "num_labels": num_labels,
            "threads": threads,
        }
        for name, (module, distribution) in _TREES.items():
            interpreter = sys.executable if name == "ours" else python
            try:
                process = peer_process.Process(module, spec, interpreter)
            except ModuleNotFoundError:
                results[name] = {"missing": distribution}
                continue
            try:
                trained = process.run("train", 0)
            finally:
                process.close()
            found = np.array(trained.pop("found"))
            results[name] = trained | {
                "precisions": label_examples.precisions(test_labels, found),
                "version": process.facts["version"],
            }
    return results


def nodes_of(tree):
    """The tree as napkinXC takes it: a list of (parent, node, label).

    The root is node 0, and row r is node r + 1. No label is -1.
    """
    parents = 1 + tree.group_parents[tree.row_groups]
    rows = np.arange(tree.num_rows)
    columns = zip(parents, rows + 1, tree.row_classes, strict=True)
    return [(-1, 0, -1), *(tuple(map(int, node)) for node in columns)]


def text(results):
    """The table of a result of `compare`."""
    rows = [["", "P@1, %", "P@3, %", "P@5, %", "CPU s", "CPU ms", "version"]]
    notes = []
    for name, result in results.items():
        if "missing" in result:
            notes.append(
                f"{name} is not installed: pip install {result['missing']}"
            )
            continue
        figures = [*result["precisions"], result["cpu_seconds"]]
        ms = units.of_seconds(result["ms"] / 1e3)
        row = [name, *(f"{x:.1f}" for x in figures), ms, result["version"]]
        rows.append(row)
    title = f"{_LABELS:,} labels, {_TRAIN:,} examples of width {_WIDTH}"
    return "\n".join([title, "", *units.aligned(rows), *notes])
