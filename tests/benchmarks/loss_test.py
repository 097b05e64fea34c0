"""The benchmark of the loss, and what the benchmarks share, on small sizes."""

import numpy as np
import pytest

from benchmarks.common import floors, implementations, timing, workloads
from benchmarks.loss import timing as loss_timing
from tests.support import benchmarks
from tests.support.trees import CATALOGUE
from tf_hsm import Tree

_TINY = workloads.Case("tiny", "two_level", "uniform", "float32")


def test_it_prints_a_table_writes_json_and_refuses_what_cannot_fit(
    monkeypatch, tmp_path, capsys
):
    benchmarks.measure_here(monkeypatch)
    # 200 kB: enough for all of ours, and for the parameters of gather's, but
    # not for its gradient.
    report = benchmarks.figures_of(
        "loss",
        tmp_path,
        "--workload=tiny",
        "--implementations=ours,gather",
        "--repetitions=3",
        "--memory_limit=200e-6",
    )
    output = capsys.readouterr().out
    rows = {line.split()[0] for line in output.splitlines() if line.strip()}
    assert {"ours", "gather", "floor"} <= rows
    assert (
        "gather, forward+backward, with SGD applied: refused: needs" in output
    )
    (case,) = report["cases"]
    result = case["result"]
    for phase in implementations.PHASES:
        ours = result["phases"]["ours"][phase]
        assert len(ours["samples_ms"]) == 3 and ours["ms"] > 0
        assert result["floors"][phase]["ms"] > 0
    assert result["phases"]["gather"]["forward"]["ms"] > 0
    assert "refused" in result["phases"]["gather"]["forward_backward"]
    assert result["memory"]["ours"]["parameters"] == 4 * 17 * 1_032


def test_unknown_workloads_and_trees_are_errors_that_list_the_known_ones():
    with pytest.raises(ValueError, match=r"'2m'.*1m-b400"):
        workloads.cases(["2m"], None, None, "float32")
    with pytest.raises(ValueError, match=r"'deep'.*balanced:K"):
        workloads.cases(["tiny"], "deep", None, "float32")


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
    assert 95 < least["forward_backward"].seconds < 97
    rates = floors.Rates(flops=1e12, read=100, read_write=200)
    least = floors.floors(work, 100, 8, 4, rates)
    # All 110 rows of 32 bytes are touched, and 2000 probabilities kept.
    rest = 8 * 2000 / 200 + 3 * 100 * 32 / 200
    in_turn = least["forward_then_backward"].seconds
    np.testing.assert_allclose(in_turn, 3520 / 100 + 3520 / 200 + rest)
    together = least["forward_backward"].seconds
    np.testing.assert_allclose(together, 2 * 3520 / 200 + rest)


def test_zipf_labels_are_drawn_by_frequency():
    case = workloads.Case("tiny", "two_level", "zipf", "float32")
    labels = workloads.draw_labels(case, 1000)
    assert labels.shape == (1000, 32)
    counts = np.bincount(labels.ravel(), minlength=1000)
    harmonic = workloads.zipf_counts(1000).sum()
    expected = labels.size / harmonic / np.array([1, 2])
    np.testing.assert_allclose(counts[:2], expected, rtol=0.1)
    assert labels.max() < 1000


def test_steps_take_turns_and_each_is_the_first_at_times():
    calls = []

    def turn_of(name, seconds):
        return lambda turn: calls.append((turn, name)) or seconds

    samples = timing.interleave(
        # Two steps of 9 seconds fit into the time of a phase.
        {"a": turn_of("a", 1), "b": turn_of("b", 2), "slow": turn_of("c", 9)},
        4,
        lambda: calls.append("between"),
    )
    assert samples == {"a": [1] * 4, "b": [2] * 4, "slow": [9] * 2}
    # The slow one has a second call to warm up.
    warm = [(0, "a"), (0, "b"), (0, "c"), (0, "c"), "between"]
    assert calls[:5] == warm
    timed = [call for call in calls[4:] if call != "between"]
    assert len(calls) - 4 - len(timed) == 4
    turns = [[name for turn, name in timed if turn == n] for n in (1, 2)]
    assert turns == [["b", "c", "a"], ["c", "a", "b"]]


def test_what_is_read_densely_is_never_read_sparsely(monkeypatch):
    benchmarks.measure_here(monkeypatch)
    make_step = implementations.make_step
    known = implementations.IMPLEMENTATIONS
    names = {one.loss: name for name, one in known.items()}
    used = {name: set() for name in known}

    def recorded(loss, phase, parameters, *args):
        used[names[loss]].add(id(parameters.weights))
        return make_step(loss, phase, parameters, *args)

    monkeypatch.setattr(implementations, "make_step", recorded)
    settings = timing.Settings(tuple(known), 1, 1, None, 20)
    loss_timing.time_case(_TINY, settings)
    assert used["ours"] == used["gather"] == used["embedding_lookup"]
    assert not used["gather"] & (used["map_fn"] | used["full"])
    assert all(used.values())
