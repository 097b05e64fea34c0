"""The benchmark of top-k, on small sizes."""

import dataclasses
import math
import pickle
import sys

import numpy as np
import pytest

from benchmarks.common import floors, implementations, peer_process, workloads
from benchmarks.heads import trained_head
from benchmarks.top_k import implementations as top_k_implementations
from benchmarks.top_k import main, reference, report, timing
from tests.support import benchmarks


def test_top_k_is_timed_and_checked_against_brute_force(
    monkeypatch, tmp_path, capsys
):
    benchmarks.measure_here(monkeypatch)
    entry, result = benchmarks.run_command(
        main,
        tmp_path / "figures.json",
        "--workload=tiny",
        "--distribution=peaked",
        "--k=5",
        "--beam=2,64",
        "--batch=1,8",
        "--allowed=0.1,0.001",
        "--repetitions=2",
    )
    output = capsys.readouterr().out
    assert (entry["workload"], entry["distribution"]) == ("tiny", "peaked")
    assert result["head"]["rows"] == 1032
    assert 1 < result["needs"]["groups"] < 33
    assert 0 < result["clarity"]["top_1"] <= 1
    assert 0 < result["clarity"]["entropy"] < math.log(1000)
    for batch in ("1", "8"):
        times, checks = result["batches"][batch], result["checks"][batch]
        for name in top_k_implementations.names([2, 64], [0.1, 0.001]):
            assert times[name]["p99_ms"] >= times[name]["p50_ms"] > 0
            assert f"\n{name} " in output
        assert times[timing.FLOOR]["floor_ms"] > 0
        for name in (
            "exact",
            "log_probs + top_k",
            "allowed 0.1",
            "allowed 0.001",
        ):
            assert checks[name] == {"inputs": 16, "bits": "same bits"}
        # There are 32 groups below the root's.
        assert checks["beam 64"]["found"] == checks["beam 64"]["proved"] == 1
        assert 0 < checks["beam 2"]["found"] <= 1
        assert checks["beam 2"]["proved"] <= checks["beam 2"]["complete"]
        assert len(times["exact"]["samples_ms"]) >= 2
    assert "same bits as brute force" in output


def test_what_cannot_fit_is_refused(monkeypatch):
    benchmarks.measure_here(monkeypatch)
    # 1,032 rows of 17 numbers are 70 kB; so are the full softmax's again.
    question = timing.Question(5, (2,), (8,), sys.executable)
    result = timing.measure(
        benchmarks.random_source(), question, benchmarks.make_settings(110e3)
    )
    times = result["batches"][8]
    assert times["exact"]["p50_ms"] > 0
    for name in ("log_probs + top_k", "full softmax + top_k"):
        assert times[name]["refused"].startswith("needs ")
        text = report.text(benchmarks.random_source(), question, result)
        assert f"{name}: refused: needs" in text
    result = timing.measure(
        benchmarks.random_source(), question, benchmarks.make_settings(60e3)
    )
    assert result["refused"].startswith("needs 70.2 kB; ")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--beam=0", "whole numbers from 1"),
        ("--allowed=0.1,0", "numbers above 0 and up to 1"),
        ("--batch=1,two", "whole numbers from 1"),
        ("--distribution=round", "must be of flat, peaked"),
        ("--peak=1", "peak"),
    ],
)
def test_bad_flags_are_errors(argument, message):
    benchmarks.assert_flag_is_refused(main, argument, message)


@pytest.mark.parametrize("tree", ["two_level", "binary"])
def test_a_search_needs_the_groups_above_the_last_of_the_best(tree):
    head = benchmarks.make_head(
        benchmarks.random_source(tree=tree, num_classes=90)
    )
    answers = reference.make(head, 4, 20)
    log_probs = benchmarks.node_log_probs(head)
    classes = log_probs[:, head.tree.class_rows]
    order = np.argsort(-classes, axis=1)[:, :4]
    np.testing.assert_array_equal(answers.classes, order)
    kth = np.take_along_axis(classes, order[:, 3:], axis=1)
    needed = np.ones((20, head.tree.num_groups), bool)
    needed[:, 1:] = log_probs[:, head.tree.group_parents[1:]] > kth
    np.testing.assert_array_equal(answers.needed, needed)

    fanouts = np.diff(head.tree.group_offsets)
    rows = (needed * fanouts).sum(1)
    assert reference.needs(answers, head.tree) == {
        "groups": needed.sum() / 20,
        "rows": rows.mean(),
    }
    # Where only the memory takes time, and not the inputs.
    rates = floors.Rates(flops=1e30, read=1.0, read_write=1.0)
    inputs = 16 * 4
    one, ten = (
        reference.floor_ms(answers, head, batch, rates) / 1000
        for batch in (1, 10)
    )
    assert one == pytest.approx(np.median(rows) * 16 * 4 + inputs)
    union = [
        (needed[half].any(0) * fanouts).sum()
        for half in (slice(10), slice(10, 20))
    ]
    assert ten == pytest.approx(np.median(union) * 16 * 4 + 10 * inputs)
    assert reference.floor_ms(answers, head, 21, rates) is None


def test_what_is_asked_can_be_sent_to_another_process():
    for value in (
        benchmarks.random_source(),
        trained_head.TrainedSource("folder"),
        timing.Question(5, (2,), (8,), "python"),
    ):
        assert pickle.loads(pickle.dumps(value)) == value


def test_other_results_are_told():
    head = benchmarks.make_head(benchmarks.random_source())
    answers = reference.make(head, 4, 20)

    def check(function, name="exact"):
        return timing._check(name, function, head, answers, 10)

    calls = iter(range(0, 100, 10))

    def right(inputs):
        rows = slice(at := next(calls), at + len(inputs))
        return answers.log_probs[rows], answers.classes[rows]

    def wrong(inputs):
        log_probs, classes = right(inputs)
        return np.nextafter(log_probs, 0), classes

    assert check(right) == {"inputs": 20, "bits": "same bits"}
    calls = iter(range(0, 100, 10))
    assert check(wrong)["bits"] == "DIFFERENT"
    assert timing.is_wrong({"checks": {1: {"exact": check(wrong)}}})
    calls = iter(range(0, 100, 10))

    def beam(inputs):
        log_probs, classes = right(inputs)
        classes = classes.copy()
        classes[:5, 0] = -1
        return log_probs, classes, np.arange(len(inputs)) % 5

    assert check(beam, "beam 3") == {
        "inputs": 20,
        "found": 7 / 8,
        "complete": 0.5,
        "proved": 0.2,
    }


def test_pytorch_answers_in_turns(tmp_path):
    path = tmp_path / "labels.npy"
    case = dataclasses.replace(benchmarks.random_source().case, batch=40)
    np.save(path, workloads.draw_labels(case, 1))
    spec = {
        "threads": 1,
        "num_classes": 1000,
        "width": 16,
        "cutoffs": (100, 300),
        "div_value": 4.0,
        "k": 5,
        "labels": str(path),
        "peak": benchmarks.PEAK,
    }
    try:
        process = peer_process.Process("top_k.torch_adaptive", spec)
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    try:
        for what in ("predict", "log_prob"):
            answer = process.run([what, 8, 3], 2)
            assert len(answer["samples"]) == 3
            assert min(answer["samples"]) > 0
    finally:
        process.close()


def test_the_full_softmax_is_one(monkeypatch):
    benchmarks.measure_here(monkeypatch)
    head = benchmarks.make_head(benchmarks.random_source(num_classes=50))
    parameters = implementations.make_parameters(50, head)
    function = top_k_implementations.make(
        "full softmax + top_k", head, 50, 20, parameters
    )
    log_probs, classes = function(head.inputs)
    np.testing.assert_allclose(np.exp(log_probs).sum(1), 1, rtol=1e-5)
    logits = head.inputs.numpy() @ parameters.weights.numpy().T
    np.testing.assert_allclose(
        np.diff(log_probs),
        np.diff(np.take_along_axis(logits, classes.numpy(), 1)),
        atol=1e-5,
    )
