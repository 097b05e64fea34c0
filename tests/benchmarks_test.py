"""The benchmark command, on its smallest workload."""

import json
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import _floors, _workloads
from tests.trees import CATALOGUE
from tf_hsm import Tree


def _run(*args):
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.loss", *args],
        stdout=subprocess.PIPE,
        text=True,
    )
    return result.returncode, result.stdout


def test_it_prints_a_table_writes_json_and_refuses_what_cannot_fit(tmp_path):
    path = tmp_path / "figures.json"
    # 200 kB: enough for all of ours, and for the parameters of gather's, but
    # not for its gradient.
    code, output = _run(
        "--workload=tiny",
        "--implementations=ours,gather",
        "--repetitions=3",
        "--memory_limit=200e-6",
        "--nomemory",
        f"--json={path}",
    )
    assert code == 0
    rows = {line.split()[0] for line in output.splitlines() if line.strip()}
    assert {"ours", "gather", "floor"} <= rows
    assert (
        "gather, forward+backward, with SGD applied: refused: needs" in output
    )
    report = json.loads(path.read_text())
    assert report["machine"]["isa"] in ("baseline", "avx2", "avx512")
    (case,) = report["cases"]
    phases = case["result"]["phases"]
    for phase in ("forward", "forward_backward", "sgd"):
        assert len(phases["ours"][phase]["samples_ms"]) == 3
        assert phases["ours"][phase]["ms"] > 0
        assert case["result"]["floors"][phase]["ms"] > 0
    assert phases["gather"]["forward"]["ms"] > 0
    assert "refused" in phases["gather"]["forward_backward"]


def test_an_unknown_workload_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'2m'.*1m-b400"):
        _workloads.cases(["2m"], None, None, "float32")


def test_work_counts_every_group_on_the_paths():
    for make_tree in CATALOGUE.values():
        tree = make_tree()
        rng = np.random.default_rng(0)
        labels = rng.integers(tree.num_classes, size=50)
        scored = np.zeros(tree.depth, int)
        touched = [set() for _ in range(tree.depth)]
        for label in labels:
            for level, row in enumerate(tree.path(label)):
                group = tree.row_groups[row]
                start, end = tree.group_offsets[group : group + 2]
                scored[level] += end - start
                touched[level].update(range(start, end))
        work = _floors.work(tree, labels)
        # Levels below all labels are left out.
        assert work.scored_rows.tolist() == np.trim_zeros(scored).tolist()
        assert work.touched_rows.tolist() == [len(t) for t in touched if t]


def test_the_floor_takes_the_larger_time_of_each_level():
    tree = Tree.two_level(100)
    rates = _floors.Rates(flops=1e3, read=1e9, read_write=2e9)
    work = _floors.work(tree, np.arange(100))
    floors = _floors.floors(work, 100, 8, 4, rates)
    # 100 examples score 10 rows at both levels: 2 x 1000 x 8 operations each.
    inputs = 100 * 8 * 4 / 1e9
    np.testing.assert_allclose(floors["forward"].seconds, 32 + inputs)
    assert floors["forward"].memory_share < 1e-6
    assert 95 < floors["forward_backward"].seconds < 97


def test_zipf_labels_are_drawn_by_frequency():
    case = _workloads.Case("tiny", "two_level", "zipf", "float32")
    labels = _workloads.draw_labels(case, 1000)
    assert labels.shape == (1000, 32)
    counts = np.bincount(labels.ravel(), minlength=1000)
    harmonic = _workloads.zipf_counts(1000).sum()
    expected = labels.size / harmonic / np.array([1, 2])
    np.testing.assert_allclose(counts[:2], expected, rtol=0.1)
    assert labels.max() < 1000
