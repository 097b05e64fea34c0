"""The benchmark of top-k, on small sizes."""

import math

import numpy as np
import pytest

from benchmarks.common import limits, workloads
from benchmarks.common.timing import Settings
from benchmarks.top_k import (
    heads,
    implementations,
    peaked_inputs,
    reference,
    timing,
    trained_head,
)
from examples.language_model import checkpoint, run, settings
from tests.support.benchmarks import figures_of, measure_here
from tests.support.texts import write_sentences

_ROOMY = limits.Limits(1e12, 1e9)


def test_top_k_is_timed_and_checked_against_brute_force(monkeypatch, tmp_path):
    measure_here(monkeypatch)
    (entry,) = figures_of(
        "top_k",
        tmp_path,
        "--workload=tiny",
        "--distribution=peaked",
        "--k=5",
        "--beam=2,64",
        "--batch=1,8",
        "--repetitions=2",
    )["heads"]
    result = entry["result"]
    assert (entry["workload"], entry["distribution"]) == ("tiny", "peaked")
    assert result["head"]["rows"] == 1032
    assert 1 < result["needs"]["groups"] < 33
    assert 0 < result["clarity"]["top_1"] <= 1
    assert 0 < result["clarity"]["entropy"] < math.log(1000)
    for batch in ("1", "8"):
        times, checks = result["batches"][batch], result["checks"][batch]
        for name in implementations.names([2, 64]):
            assert times[name]["p99_ms"] >= times[name]["p50_ms"] > 0
        assert times[timing.FLOOR]["floor_ms"] > 0
        for name in ("exact", "log_probs + top_k"):
            assert checks[name] == {"inputs": 16, "bits": "same bits"}
        # There are 32 groups below the root's.
        assert checks["beam 64"]["found"] == checks["beam 64"]["proved"] == 1
        assert 0 < checks["beam 2"]["found"] <= 1
        assert checks["beam 2"]["proved"] <= checks["beam 2"]["complete"]
        assert len(times["exact"]["samples_ms"]) >= 2


def test_other_results_are_told():
    case = workloads.Case("tiny", "two_level", "uniform", "float32")
    peak = peaked_inputs.Peak(0.9, 1.0)
    head, _ = heads.RandomSource(case, "peaked", peak).make(20, _ROOMY)
    answers = reference.make(head, 4, 20)

    def check(change, name="exact"):
        """Checks a function that changes the answers of ten inputs."""
        starts = iter((0, 10))

        def function(inputs):
            rows = slice(at := next(starts), at + len(inputs))
            return change(answers.log_probs[rows], answers.classes[rows].copy())

        return timing._check(name, function, head, answers, 10)

    def beam(log_probs, classes):
        classes[:5, 0] = -1
        return log_probs, classes, np.arange(10) % 5

    right = check(lambda log_probs, classes: (log_probs, classes))
    assert right == {"inputs": 20, "bits": "same bits"}
    wrong = check(lambda values, classes: (np.nextafter(values, 0), classes))
    assert wrong["bits"] == "DIFFERENT"
    assert timing.is_wrong({"checks": {1: {"exact": wrong}}})
    shares = {"found": 7 / 8, "complete": 0.5, "proved": 0.2}
    assert check(beam, "beam 3") == {"inputs": 20, **shares}


@pytest.fixture
def trained(tmp_path):
    """The folder of an untrained language model with a head, and its text."""
    text = write_sentences(tmp_path, 300)
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
    measure_here(monkeypatch)
    job, folder, text = trained
    source = trained_head.TrainedSource(str(folder))
    head, _ = source.make(22, _ROOMY)
    layer = job.model.get_layer("head")
    assert head.tree == layer.tree
    assert head.inputs.shape == (22, 6)
    np.testing.assert_array_equal(head.parameters.weights, layer.kernel)
    # More inputs than the text has.
    question = timing.Question(3, (2,), (400,))
    chosen = Settings((), 2, 1, None, 20.0)
    result = timing.measure(source, question, chosen)
    assert not timing.is_wrong(result)
    assert result["checks"][400]["exact"]["bits"] == "same bits"
    assert result["batches"][400]["full softmax + top_k"]["p50_ms"] > 0

    text.write_text(text.read_text() + "\nanother line")
    with pytest.raises(ValueError, match="not the one"):
        source.make(22, _ROOMY)
