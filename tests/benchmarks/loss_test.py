"""The benchmark of the loss, and what the benchmarks share, on small sizes."""

import numpy as np
import pytest
from absl import flags

from benchmarks.common import floors, implementations, units
from tests.support.benchmarks import figures_of, measure_here, run_main
from tests.support.trees import CATALOGUE
from tf_hsm import Tree


def test_it_measures_and_refuses_what_cannot_fit(monkeypatch, tmp_path):
    measure_here(monkeypatch)
    # 200 kB: enough for all of ours, and for the parameters of gather's, but
    # not for its gradient.
    (case,) = figures_of(
        "loss",
        tmp_path,
        "--workload=tiny",
        "--implementations=ours,gather",
        "--repetitions=3",
        "--memory_limit=200e-6",
    )["cases"]
    result = case["result"]
    for phase in implementations.PHASES:
        ours = result["phases"]["ours"][phase]
        assert len(ours["samples_ms"]) == 3 and ours["ms"] > 0
        assert result["floors"][phase]["ms"] > 0
    assert result["phases"]["gather"]["forward"]["ms"] > 0
    assert "refused" in result["phases"]["gather"]["forward_backward"]
    assert result["memory"]["ours"]["parameters"] == 4 * 17 * 1_032


def test_an_unknown_workload_is_an_error_that_lists_the_known_ones():
    with pytest.raises(flags.IllegalFlagValueError, match=r"2m.*1m-b400"):
        run_main("loss", "--workload=2m")


def test_columns_are_aligned_and_rows_may_be_short():
    rows = [["", "ms", "x ours"], ["ours", "10.0"], ["full", "8.00", "0.80"]]
    lines = ["        ms  x ours", "ours  10.0", "full  8.00    0.80"]
    assert units.aligned(rows) == lines


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
        work = floors.work(tree, labels)
        # Levels below all labels are left out.
        assert work.scored_rows.tolist() == np.trim_zeros(scored).tolist()
        assert work.touched_rows.tolist() == [len(t) for t in touched if t]


def test_the_floor_takes_the_larger_time_of_each_level():
    tree = Tree.two_level(100)
    rates = floors.Rates(flops=1e3, read=1e9, read_write=2e9)
    work = floors.work(tree, np.arange(100))
    least = floors.floors(work, 100, 8, 4, rates)
    # 100 examples score 10 rows at both levels: 2 x 1000 x 8 operations each.
    inputs = 100 * 8 * 4 / 1e9
    np.testing.assert_allclose(least["forward"].seconds, 32 + inputs)
    assert least["forward"].memory_share < 1e-6
    rates = floors.Rates(flops=1e12, read=100, read_write=200)
    least = floors.floors(work, 100, 8, 4, rates)
    # All 110 rows of 32 bytes are touched, and 2000 probabilities kept.
    rest = 8 * 2000 / 200 + 3 * 100 * 32 / 200
    in_turn = least["forward_then_backward"].seconds
    np.testing.assert_allclose(in_turn, 3520 / 100 + 3520 / 200 + rest)
