"""The benchmark of sampling, on small sizes."""

import pickle

import numpy as np
import pytest

import tf_hsm
from benchmarks.sample import main, reference, timing
from tests.support import benchmarks


def test_draws_are_timed_and_checked(monkeypatch, tmp_path, capsys):
    benchmarks.measure_here(monkeypatch)
    _, result = benchmarks.run_command(
        main,
        tmp_path / "figures.json",
        "--workload=tiny",
        "--distribution=flat",
        "--batch=4",
        "--num_samples=1,7",
        "--repetitions=2",
    )
    output = capsys.readouterr().out
    assert result["found"]["ancestral"] == 1000
    assert result["found"]["top_k=50"] == 50
    assert 500 < result["found"]["top_p=0.9"] < 950
    assert [t["num_samples"] for t in result["tables"]] == [1, 7]
    for table in result["tables"]:
        assert table["batch"] == 4
        for name in (*result["found"], "full softmax + categorical"):
            assert table["times"][name]["p50_ms"] > 0
            assert f"\n{name} " in output
    for name, check in result["checks"].items():
        assert check["right"]
        assert check["draws"] == 16_000
        assert f"{name}: right" in output


def test_what_cannot_fit_is_refused(monkeypatch):
    benchmarks.measure_here(monkeypatch)
    # 1,032 rows of 17 numbers are 70 kB; so are the full softmax's again.
    question = timing.Question((8,), (1,), 50, 0.9)
    result = timing.measure(
        benchmarks.random_source(), question, benchmarks.make_settings(120e3)
    )
    (table,) = result["tables"]
    refusal = table["times"]["full softmax + categorical"]["refused"]
    assert refusal.startswith("needs ")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--num_samples=", "whole numbers from 1"),
        ("--top_p=1.5", "top_p"),
    ],
)
def test_bad_flags_are_errors(argument, message):
    benchmarks.assert_flag_is_refused(main, argument, message)


def test_what_is_asked_can_be_sent_to_another_process():
    question = timing.Question((8,), (1,), 50, 0.9)
    assert pickle.loads(pickle.dumps(question)) == question


@pytest.mark.parametrize(
    "arguments", [{}, {"top_k": 5}, {"top_p": 0.6}], ids=str
)
def test_wrong_draws_are_told(arguments):
    head = benchmarks.make_head(benchmarks.random_source(num_classes=60))
    expected, clarity = reference.make(head, {"it": arguments}, 8)
    probs = np.exp(benchmarks.node_log_probs(head)[:8, head.tree.class_rows])
    assert clarity["top_1"] == pytest.approx(probs.max(1).mean(), rel=1e-5)
    classes = tf_hsm.hierarchical_softmax_sample(
        *head.parameters, head.inputs[:8], head.tree, 500, seed=3, **arguments
    ).numpy()
    check = reference.check(head, classes, expected["it"])
    assert check["right"] and check["draws"] == 4000
    # All classes alike; the best one only; those of another input.
    uniform = np.random.default_rng(0).integers(60, size=(8, 500))
    best = np.repeat(probs.argmax(1)[:, None], 500, axis=1)
    for wrong in (uniform, best, np.roll(classes, 1, axis=0)):
        check = reference.check(head, wrong, expected["it"])
        assert not check["right"]
    assert timing.is_wrong({"checks": {"it": check}})


def test_a_nucleus_is_the_fewest_classes_of_its_probability():
    of_input = reference._of_input
    log_probs = np.log([0.5, 0.3, 0.15, 0.05])
    assert of_input(log_probs, top_p=0.75)[:2] == (2, log_probs[1])
    # Where rounding decides, the next class may be drawn too.
    assert of_input(log_probs, top_p=0.8 - 1e-9)[:2] == (2, log_probs[2])
    assert of_input(log_probs, top_p=1.0)[:2] == (4, log_probs[3])
    size, _, mean, variance = of_input(log_probs, top_k=2)
    shares = np.array([5, 3]) / 8
    assert size == 2
    assert mean == pytest.approx(shares @ log_probs[:2])
    squares = shares @ log_probs[:2] ** 2
    assert variance == pytest.approx(squares - mean**2)
