"""The label trees' benchmark at a small size."""

import numpy as np
import pytest
from absl import flags

import tf_hsm
from benchmarks.common import label_examples
from benchmarks.label_tree import (
    compared,
    extreme,
    in_place,
    report,
    scores,
)
from tests.support import benchmarks

TREE = tf_hsm.Tree.balanced(50, [5, 10])


def test_in_place(tmp_path, monkeypatch, capsys):
    """It learns, and visits what it says."""
    benchmarks.measure_here(monkeypatch)
    figures = benchmarks.figures_of(
        "label_tree",
        tmp_path,
        "--labels=300",
        "--width=16",
        "--batch=50",
        "--steps=60",
    )
    output = capsys.readouterr().out
    (result,) = figures["in_place"]
    assert figures["sizes"]["labels"] == 300
    assert result["ms"] == np.median(result["samples_ms"])
    assert 3 < result["visited_rows"] <= result["rows"] < 500
    assert result["precisions"][0] > 10
    assert f"{result['precisions'][0]:.1f}" in output


def test_examples():
    """The labels of an example are different ones of one group."""
    source = label_examples.Source(TREE, 8, 4)
    inputs, labels = source.draw(200, 1)
    np.testing.assert_allclose(np.linalg.norm(inputs, axis=1), 1, rtol=1e-5)
    group = TREE.row_groups[TREE.class_rows]
    sizes = set()
    for row in labels:
        its = row[row >= 0]
        assert (row[: its.size] >= 0).all()
        assert len(set(its)) == its.size and len(set(group[its])) == 1
        sizes.add(its.size)
    assert sizes == {1, 2, 3, 4}
    again = source.draw(200, 1)
    np.testing.assert_array_equal(again.labels, labels)


def test_precisions():
    labels = np.array([[3, 1, -1], [2, -1, -1]])
    found = np.array([[3, 9, 1, 8, 7], [0, 2, 4, 5, 6]])
    np.testing.assert_allclose(
        label_examples.precisions(labels, found),
        [50, 100 * 3 / 6, 100 * 3 / 10],
    )


def test_visited_rows():
    """Those that have a gradient."""
    _, labels = label_examples.Source(TREE, 8, 4).draw(3, 1)
    sets = compared.trained_nodes(TREE, labels)
    rows = {node - 1 for nodes in sets for node, _ in nodes} - {-1}
    assert in_place.visited_rows(TREE, labels) == len(rows)


def test_nodes():
    """The tree as napkinXC takes it is the same one."""
    nodes = compared.nodes_of(TREE)
    assert nodes[0] == (-1, 0, -1) and len(nodes) == 1 + TREE.num_rows
    leaf = {label: node for _, node, label in nodes if label >= 0}
    parent = {node: above for above, node, _ in nodes}
    for c in range(50):
        path, node = [], leaf[c]
        while node > 0:
            path.append(node - 1)
            node = parent[node]
        assert path[::-1] == TREE.path(c).tolist()


def test_without_napkinxc(monkeypatch):
    """Ours is trained, and the other named."""
    benchmarks.measure_here(monkeypatch)
    results = compared.compare("python", 1, examples=300, labels=20)
    assert results["ours"]["precisions"][0] > 30
    assert results["napkinXC"]["missing"] == "napkinxc"
    assert "not installed: napkinxc" in report.comparison(results)


def test_scores():
    """The formulas, label by label."""
    labels = np.array([[3, 1, -1], [2, -1, -1], [0, 4, 5]])
    found = np.array([[3, 9, 1, 8, 7], [0, 4, 2, 5, 6], [5, 1, 2, -1, -1]])
    counts = np.array([50, 20, 10, 5, 2, 1, 1, 1, 1, 1])
    result = scores.measures(labels, found, counts, 70)
    hits = [[1, 0, 1, 0, 0], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0]]
    for k in (1, 3, 5):
        assert result[f"P@{k}"] == pytest.approx(
            100 * sum(sum(row[:k]) for row in hits) / (3 * k)
        )
    places = 1 / np.log2(np.arange(2, 7))
    ndcg = np.mean(
        [
            (places[0] + places[2]) / (places[0] + places[1]),
            places[2] / places[0],
            places[0] / places[:3].sum(),
        ]
    )
    assert result["nDCG@5"] == pytest.approx(100 * ndcg)
    constant = (np.log(70) - 1) * 2.5**0.55
    gain = [1 + constant * (n + 1.5) ** -0.55 for n in counts]
    reached = gain[3] + gain[1] + gain[2] + gain[5]
    possible = sum(gain[c] for c in (3, 1, 2, 0, 4, 5))
    assert result["PSP@3"] == pytest.approx(100 * reached / possible)
    possible = gain[3] + gain[2] + gain[5]
    assert result["PSP@1"] == pytest.approx(
        100 * (gain[3] + gain[5]) / possible
    )


def test_scores_are_those_of_the_metrics():
    """The package's metrics give the same figures."""
    rng = np.random.default_rng(0)
    tree = tf_hsm.Tree.balanced(30, 6)
    head = tf_hsm.layers.LabelTree(tree, kernel_initializer="normal")
    inputs = rng.normal(size=[40, 8]).astype("f4")
    head(inputs)
    labels = np.stack([rng.permutation(30)[:4] for _ in range(40)])
    labels[::3, 2:] = -1
    counts = rng.integers(1, 50, 30)
    found = head.top_k(inputs, 5).classes.numpy()
    result = scores.measures(labels, found, counts, 200)
    for k in scores.KS:
        for name, metric in (
            (f"P@{k}", tf_hsm.metrics.PrecisionAtK(head, k)),
            (
                f"PSP@{k}",
                tf_hsm.metrics.PropensityScoredPrecisionAtK(
                    head, counts, 200, k
                ),
            ),
        ):
            metric.update_state(labels, inputs)
            assert result[name] == pytest.approx(
                100 * float(metric.result()), rel=1e-4
            )
    metric = tf_hsm.metrics.NDCGAtK(head, 5)
    metric.update_state(labels, inputs)
    assert result["nDCG@5"] == pytest.approx(
        100 * float(metric.result()), rel=1e-4
    )


def test_extreme_without_peers(tmp_path, monkeypatch):
    """Ours is trained on the files of a folder, and the others named."""
    benchmarks.measure_here(monkeypatch)
    rng = np.random.default_rng(0)
    for part, count in (("train", 300), ("test", 50)):
        lines = [f"{count} 20 20"]
        for label in rng.integers(0, 20, count):
            lines.append(f"{label},{label ^ 1} {label}:1")
        text = "\n".join([*lines, ""])
        (tmp_path / f"{part}.txt").write_text(text)
    results = extreme.compare(str(tmp_path), "", "python", 1, epochs=60)
    assert results["ours"]["scores"]["P@1"] > 90
    assert results["ours"]["bytes"] > 0
    assert results["omikuji, 3 trees"]["missing"] == "omikuji"
    assert "missing" in results["pecos"]
    text = report.extreme(results)
    assert "PSP@5" in text and "not installed: omikuji" in text


def test_what_cannot_be_is_refused():
    with pytest.raises(flags.IllegalFlagValueError):
        benchmarks.run_main("label_tree", "--labels=1")
    sizes = in_place.Sizes(10**9, 64, 10, 5, 1)
    assert "needs" in in_place.refusal(sizes, 10**9)
