"""Our label tree and napkinXC's, on one data set and with equal trees."""

import pathlib
import sys
import tempfile

import numpy as np

import tf_hsm
from benchmarks.common import label_examples, peer_process

_LABELS, _WIDTH, _MOST = 1_000, 100, 5
_TEST = 5_000
_EPOCHS = 10
# Examples whose nodes are compared.
_NODES_OF = 100


def compare(python, threads, examples=20_000, labels=_LABELS):
    """Trains both on the same examples.

    Args:
      python: the interpreter that has napkinXC.
      threads: of each.
      examples: to train on.
      labels: how many there are.

    Returns:
      Name -> {"precisions": P@1, P@3 and P@5 in percent, "seconds",
      "version"}, and of napkinXC "same_nodes", whether it trains the nodes on
      `_NODES_OF` examples that we visit; or {"missing": module}.
    """
    tree = tf_hsm.Tree.balanced(labels, 10)
    source = label_examples.Source(tree, _WIDTH, _MOST)
    train, test = source.draw(examples, 1), source.draw(_TEST, 2)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        np.savez(
            folder / "data.npz",
            train_inputs=train.inputs,
            train_labels=train.labels,
            test_inputs=test.inputs,
            nodes_of=np.arange(_NODES_OF),
        )
        tree.save(folder / "tree.npz")
        spec = {
            "data": str(folder / "data.npz"),
            "tree": str(folder / "tree.npz"),
            "nodes": nodes_of(tree),
            "epochs": _EPOCHS,
            "threads": threads,
        }
        for name, module, interpreter in (
            ("ours", "label_tree.ours", sys.executable),
            ("napkinXC", "label_tree.napkinxc_tree", python),
        ):
            try:
                process = peer_process.Process(module, spec, interpreter)
            except ModuleNotFoundError as error:
                results[name] = {"missing": error.name}
                continue
            try:
                trained = process.run("train", 0)
            finally:
                process.close()
            results[name] = {
                "precisions": label_examples.precisions(
                    test.labels, np.array(trained["found"])
                ),
                "seconds": trained["seconds"],
                "version": process.facts["version"],
            }
            if "nodes" in trained:
                results[name]["same_nodes"] = trained_nodes(
                    tree, train.labels[:_NODES_OF]
                ) == [
                    {(node, bool(is_positive)) for node, is_positive in its}
                    for its in trained["nodes"]
                ]
    return results


def nodes_of(tree):
    """The tree as napkinXC takes it: a list of (parent, node, label).

    The root is node 0, and row r is node r + 1. No label is -1.
    """
    parents = 1 + tree.group_parents[tree.row_groups]
    rows = np.arange(tree.num_rows)
    columns = zip(parents, rows + 1, tree.row_classes, strict=True)
    return [(-1, 0, -1), *(tuple(map(int, node)) for node in columns)]


def trained_nodes(tree, labels):
    """The nodes that each example is trained on, and whether as positive.

    Args:
      tree: a `tf_hsm.Tree`.
      labels: `[B, M]`, with one each at least, -1 for none.

    Returns:
      A list of sets of (node, bool). The root, which has no row of ours, is
      positive.
    """
    sets = []
    for its in labels:
        positive = {int(r) for c in its[its >= 0] for r in tree.path(c)}
        groups = {0, *(int(tree.row_children[r]) for r in positive)} - {-1}
        rows = {
            r
            for g in groups
            for r in range(*map(int, tree.group_offsets[g : g + 2]))
        }
        sets.append({(0, True), *((r + 1, r in positive) for r in rows)})
    return sets
