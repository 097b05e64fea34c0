"""The benchmark commands, on their smallest workload."""

import dataclasses
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.common import (
    digest,
    floors,
    implementations,
    machine,
    timing,
    workloads,
)
from benchmarks.scaling import plots, report, sweeps
from tests.support import forked, pictures
from tests.support.benchmarks import measure_here, run_main
from tests.support.trees import CATALOGUE
from tf_hsm import Tree, cpu_isa


@pytest.fixture
def here(monkeypatch):
    """Measures in this process, and the machine's rates only roughly."""
    measure_here(monkeypatch)


def test_it_prints_a_table_writes_json_and_refuses_what_cannot_fit(
    here, tmp_path, capsys
):
    path = tmp_path / "figures.json"
    # 200 kB: enough for all of ours, and for the parameters of gather's, but
    # not for its gradient.
    run_main(
        "loss",
        "--workload=tiny",
        "--implementations=ours,gather",
        "--repetitions=3",
        "--memory_limit=200e-6",
        "--nomemory",
        f"--json={path}",
    )
    output = _out(capsys)
    rows = {line.split()[0] for line in output.splitlines() if line.strip()}
    assert {"ours", "gather", "floor"} <= rows
    assert (
        "gather, forward+backward, with SGD applied: refused: needs" in output
    )
    report = json.loads(path.read_text())
    assert report["machine"]["isa"] in (
        "baseline",
        "avx2",
        "avx512",
        "amx",
    )
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
        workloads.cases(["2m"], None, None, "float32")


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


@pytest.mark.parametrize("num_classes", [2, 10, 1000, 1024, 12345])
def test_a_tree_of_given_depth_has_even_fanouts(num_classes):
    for depth in range(1, math.ceil(math.log2(num_classes)) + 1):
        fanouts = workloads.even_branching(num_classes, depth)
        assert len(fanouts) == depth
        assert fanouts == sorted(fanouts, reverse=True)
        assert fanouts[0] - fanouts[-1] <= 1
        assert math.prod(fanouts) >= num_classes
        if fanouts[0] > fanouts[-1]:
            # One larger fanout less is too few.
            fewer = math.prod(fanouts) // fanouts[0] * fanouts[-1]
            assert fewer < num_classes
        case = workloads.Case(
            "tiny", f"depth:{depth}", "uniform", "float32", num_classes
        )
        assert workloads.make_tree(case).depth == depth


def test_sizes_of_a_case_replace_those_of_its_workload():
    case = workloads.Case(
        "tiny", "two_level", "uniform", "float32", num_classes=50, batch=7
    )
    assert case.sizes.width == 16
    assert workloads.make_tree(case).num_classes == 50
    labels = workloads.draw_labels(case, 3)
    assert labels.shape == (3, 7)
    assert labels.max() < 50


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


def test_a_slow_first_call_does_not_say_how_many_turns_there_are():
    seconds = iter([9, 1, 1, 1, 1, 1])
    samples = timing.interleave(
        {"a": lambda turn: next(seconds)}, 4, lambda: None
    )
    assert samples == {"a": [1] * 4}


def test_a_library_that_is_not_installed_is_refused(here, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(
        sys.modules, "benchmarks.common.torch_linear", raising=False
    )
    run_main(
        "loss",
        "--workload=tiny",
        "--implementations=ours,torch",
        "--repetitions=1",
        "--nomemory",
    )
    output = _out(capsys)
    assert "with SGD applied: refused: torch is not installed" in output
    assert f"kernels for {cpu_isa()}; floor: " in output


def test_torch_has_the_loss_of_numpy(here, tmp_path):
    """Its figures have the form of the other implementations' figures."""
    torch = pytest.importorskip("torch")
    from benchmarks.common import peers, torch_linear

    labels = workloads.draw_labels(_TINY, 2)
    np.save(tmp_path / "labels.npy", labels)
    sizes = _TINY.sizes
    one = torch_linear.Implementation(
        {
            "num_classes": sizes.num_classes,
            "width": sizes.width,
            "batch": sizes.batch,
            "dtype": "float64",
            "threads": torch.get_num_threads(),
            "labels": str(tmp_path / "labels.npy"),
        }
    )
    weights, inputs = (
        t.detach().numpy().copy() for t in (one._weights, one._inputs)
    )
    logits = inputs @ weights.T
    sums = np.log(np.exp(logits).sum(1))
    loss = (sums - logits[np.arange(sizes.batch), labels[1]]).mean()
    for phase in implementations.PHASES:
        found = one.run(phase, 1)
        assert found["loss"] == pytest.approx(loss) and found["seconds"] > 0
    assert one.run("forward", 1)["loss"] < loss
    settings = timing.Settings(("ours", "torch"), 2, 1, None, 20)
    phases = timing.time_case(_TINY, settings)["phases"]
    assert all(len(p["samples_ms"]) == 2 for p in phases["torch"].values())
    found = peers.Peer("torch", _TINY, labels, settings).memory(["forward"])
    assert found["parameters"] == 4 * 17 * sizes.num_classes


_TINY = workloads.Case("tiny", "two_level", "uniform", "float32")
_FEW = dataclasses.replace(_TINY, num_classes=7)
_ENDS = sweeps.Range(30, 90, 4)


def test_what_is_read_densely_is_never_read_sparsely(here, monkeypatch):
    make_step = implementations.make_step
    known = implementations.IMPLEMENTATIONS
    names = {one.loss: name for name, one in known.items()}
    used = {name: set() for name in known}

    def recorded(loss, phase, parameters, *args):
        used[names[loss]].add(id(parameters.weights))
        return make_step(loss, phase, parameters, *args)

    monkeypatch.setattr(implementations, "make_step", recorded)
    # The latter is forward and backward too.
    phases = "forward", "sgd"
    timing.time_case(
        _TINY, timing.Settings(tuple(known), 1, 1, None, 20, phases)
    )
    assert used["ours"] == used["gather"] == used["embedding_lookup"]
    assert not used["gather"] & (used["map_fn"] | used["full"])
    assert all(used.values())


def _sweep(name):
    sweep = sweeps.SWEEPS[name]
    settings = timing.Settings(
        sweep.implementations, 2, 1, None, 20, sweeps.PHASES
    )
    return sweep, sweep.points(_FEW, settings, _ENDS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("classes", [30, 90]),
        ("batch", [1, 4]),
        ("depth", [1, 2, 3]),
    ],
)
def test_a_sweep_is_a_table_and_a_plot(
    here, tmp_path, capsys, monkeypatch, name, expected
):
    sweep, points = _sweep(name)
    table = report.Table(name, sweep, _FEW)
    measured = []
    for point in points:
        table.add(point)
        measured.append(point)
    table.close()
    assert [point.x for point in measured] == expected
    for point in measured:
        for phase in sweeps.PHASES:
            for implementation in (*sweep.implementations, "floor"):
                milliseconds = report.milliseconds
                assert milliseconds(point, implementation, phase) > 0
    title, header, *rows = re.findall(
        r"^.*\d.*$|^ .*ours.*$", _out(capsys), re.M
    )
    assert "16" in title
    assert header.split().count("ours") == 2
    firsts = [row.split()[0].replace(",", "") for row in rows]
    assert firsts[: len(expected)] == [str(x) for x in expected]

    with pictures.written(monkeypatch) as figures:
        path = plots.draw(tmp_path / "new", name, sweep, _FEW, measured)
    assert path == tmp_path / "new" / f"{name}.png"
    picture = path.read_bytes()
    assert len(picture) < 120_000
    texts = pictures.texts(*figures)
    for text in ("tf_hsm", "floor of the machine", sweep.axis, "backward"):
        assert text in texts
    assert figures[0].get_facecolor() == (1, 1, 1, 1)
    plots.draw(tmp_path / "new", name, sweep, _FEW, measured)
    assert path.read_bytes() == picture


def _out(capsys):
    return capsys.readouterr().out


def test_the_command_writes_a_table_json_and_a_plot(here, tmp_path, capsys):
    path = tmp_path / "figures.json"
    run_main(
        "scaling",
        "--what=batch",
        "--workload=tiny",
        "--labels=zipf",
        "--max_batch=3",
        "--repetitions=1",
        f"--plots={tmp_path}",
        f"--json={path}",
    )
    output = _out(capsys)
    assert "by batch: N=1,000, D=16, two_level tree, zipf labels" in output
    (sweep,) = json.loads(path.read_text())["sweeps"]
    assert [point["x"] for point in sweep["points"]] == [1, 3]
    assert (tmp_path / "batch.png").exists()


def test_results_have_the_same_bits_with_one_and_two_threads():
    if machine.num_cpus() < 2:
        pytest.skip("there is one CPU")
    cases = [_TINY, dataclasses.replace(_TINY, batch=200)]
    one, two = (
        forked.run(digest.measure, cases, threads) for threads in (1, 2)
    )
    assert one == two
    assert len(set(one)) == 2


def test_other_bits_are_told(monkeypatch):
    result = {"work": {"touched_rows": [1]}, "tree": {"depth": 1}}

    def run_alone(function, cases, settings):
        if function is timing.time_cases:
            return [result] * len(cases)
        return [f"{settings} threads"] * len(cases)

    monkeypatch.setattr(machine, "run_alone", run_alone)
    sweep = sweeps.SWEEPS["threads"]
    settings = timing.Settings(("ours",), 1, 2, None, 20)
    points = list(sweep.points(_TINY, settings, _ENDS))
    assert [point.columns["results"] for point in points] == [
        *["same bits"] * 2,
        *["DIFFERENT"] * 2,
    ]


_CORE = pathlib.Path(floors.__file__).parents[1] / "core/core"
_needs_core = pytest.mark.skipif(
    "TEST_SRCDIR" not in os.environ, reason="built by Bazel"
)


def _run_core(*args):
    return subprocess.run([_CORE, *args], capture_output=True, text=True)


@_needs_core
@pytest.mark.parametrize(
    ("args", "tree"),
    [
        ([], Tree.two_level(1000)),
        (["--fanout=7"], Tree.balanced(1000, 7)),
        (["--depth=4", "--labels=zipf"], Tree.balanced(1000, [6, 6, 6, 5])),
        (["--dtype=bfloat16"], Tree.two_level(1000)),
        (["--dtype=float16", "--depth=1"], Tree.balanced(1000, 1000)),
        (["--dtype=float64", "--fanout=2"], Tree.balanced(1000, 2)),
    ],
)
def test_the_core_is_measured_without_tensorflow(args, tree):
    result = _run_core(
        "--classes=1000",
        "--width=16",
        "--batch=32",
        "--threads=1,2",
        "--repetitions=2",
        "--stream_mb=1",
        *args,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert (
        f"{tree.num_rows} rows in {tree.num_groups} groups, "
        f"depth {tree.depth}\n"
    ) in result.stdout
    # The logits are small: each group's softmax is nearly even.
    fanouts = np.diff(tree.group_offsets)
    mean = float(re.search(r"mean loss (\S+)", result.stdout)[1])
    shortest, longest = (
        pick(
            sum(np.log(fanouts[tree.row_groups[tree.path(c)]]))
            for c in range(1000)
        )
        for pick in (min, max)
    )
    assert shortest - 0.3 < mean < longest + 0.3
    _, rates, *tables = result.stdout.split("\n\n")
    _, _, *machines = rates.strip().splitlines()
    assert len(machines) % 2 == 0
    for row in machines:
        _, threads, *numbers = row.split()
        assert threads in ("1", "2")
        assert min(map(float, numbers)) > 0
    assert len(tables) == 3
    for table, columns in zip(tables, (6, 4, 4), strict=True):
        _, *rows = table.strip().splitlines()
        assert len(rows) == 2 * len(machines)
        for row in rows:
            _, threads, pages, *numbers = row.split()
            assert threads in ("1", "2")
            assert pages in ("huge", "small")
            assert len(numbers) == columns
            assert min(map(float, numbers)) >= 0


@_needs_core
def test_the_core_names_its_flags_and_refuses_what_cannot_fit():
    result = _run_core("--clases=1000")
    assert result.returncode == 1
    assert "there is no flag --clases=1000" in result.stderr
    assert "--classes=" in result.stderr
    result = _run_core("--classes=1000000000000")
    assert result.returncode == 1
    assert re.match(r"needs .* GB at least", result.stderr)
