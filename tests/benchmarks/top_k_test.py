"""The benchmark of top-k, on small sizes."""

import math

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from benchmarks.common import floors, workloads
from benchmarks.top_k import (
    calls,
    heads,
    main,
    peaked_inputs,
    reference,
    report,
    timing,
    trained_head,
)
from benchmarks.top_k import implementations as top_k_implementations
from examples.language_model import checkpoint, run, settings
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
        for name in top_k_implementations.names([2, 64]):
            assert times[name]["p99_ms"] >= times[name]["p50_ms"] > 0
            assert f"\n{name} " in output
        assert times[timing.FLOOR]["floor_ms"] > 0
        for name in ("exact", "log_probs + top_k"):
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
    question = timing.Question(5, (2,), (8,))
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


@pytest.mark.parametrize(
    "make_tree",
    [
        lambda: tf_hsm.Tree.balanced(60, 60),
        lambda: tf_hsm.Tree.two_level(64),
        lambda: tf_hsm.Tree.huffman(1 / np.arange(1, 50)),
    ],
)
def test_peaked_inputs_have_their_probability(make_tree):
    tree = make_tree()
    case = workloads.Case(
        "tiny", "", "uniform", "float32", tree.num_classes, batch=30
    )
    # Rows that are orthogonal but for what they have in common.
    weights = tf.eye(tree.num_rows) + 0.5
    peak = peaked_inputs.Peak(0.7, 1e-9)
    (classes,) = workloads.draw_labels(case, 1)
    inputs = heads._peaked(case, tree, classes, weights, peak)
    log_probs = tf_hsm.hierarchical_softmax_log_prob(
        weights, None, classes[:, None], inputs, tree
    )
    np.testing.assert_allclose(np.exp(log_probs), 0.7, rtol=1e-4)


@pytest.fixture
def trained(tmp_path):
    """The folder of an untrained language model with a head, and its text."""
    text = tmp_path / "text.txt"
    lines = [f"word{i % 17} follows word{i % 5}" for i in range(900)]
    lines += [f"seen once : name{i}" for i in range(30)]
    text.write_text("\n".join(lines))
    chosen = settings.Settings(
        corpus=str(text),
        head="hierarchical",
        branching=4,
        units=6,
        batch_size=3,
        steps=5,
        cell="rnn",
    )
    job = run.prepare(chosen, tmp_path / "model")
    checkpoint.save(tmp_path / "model", job.model, job.state)
    return job, tmp_path / "model", text


def test_a_trained_model_gives_its_hidden_vectors(trained, monkeypatch):
    benchmarks.measure_here(monkeypatch)
    job, folder, text = trained
    source = trained_head.TrainedSource(str(folder))
    head, refusal = source.make(22, benchmarks.ROOMY)
    assert refusal is None
    layer = job.model.get_layer("head")
    assert head.tree == layer.tree
    assert head.inputs.shape == (22, 6)
    np.testing.assert_array_equal(head.parameters.weights, layer.kernel)
    # More inputs than the text has.
    question = timing.Question(3, (2,), (400,))
    result = timing.measure(source, question, benchmarks.make_settings())
    assert not timing.is_wrong(result)
    assert result["checks"][400]["exact"]["bits"] == "same bits"
    assert result["batches"][400]["full softmax + top_k"]["p50_ms"] > 0

    text.write_text(text.read_text() + "\nanother line")
    with pytest.raises(ValueError, match="not the one"):
        source.make(22, benchmarks.ROOMY)


def test_calls_are_made_in_runs_on_other_inputs():
    made = {"fast": [], "slow": []}

    def timed(name, seconds):
        def run(first, count):
            made[name].append((first, count))
            return [seconds] * (count - 1) + [2 * seconds]

        return run

    result = calls.measure(
        {"fast": timed("fast", 1e-4), "slow": timed("slow", 1.5)}, 1, 3
    )
    # To warm up, two calls and a run; then three runs.
    assert made["fast"] == [(0, 2), (0, 25), (25, 25), (50, 25), (75, 25)]
    assert made["slow"] == [(0, 2), (0, 1), (1, 1), (2, 1), (3, 1)]
    samples = result["fast"]["samples_ms"]
    assert len(samples) == 75
    assert result["fast"]["p50_ms"] == pytest.approx(0.1)
    assert result["fast"]["p99_ms"] == pytest.approx(0.2)
    assert len(result["slow"]["samples_ms"]) == 3
    made["fast"].clear()
    calls.measure({"fast": timed("fast", 1e-4)}, 400, 1)
    assert made["fast"][-1] == (1, 1)
