"""The benchmarks of top-k and sampling, on small sizes."""

import dataclasses
import json
import math
import pickle
import sys

import numpy as np
import pytest
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver

import tf_hsm
from benchmarks import (
    _calls,
    _floors,
    _heads,
    _implementations,
    _limits,
    _machine,
    _peaked_inputs,
    _peer_process,
    _sample_reference,
    _sample_timing,
    _timing,
    _top_k_implementations,
    _top_k_reference,
    _top_k_report,
    _top_k_timing,
    _trained_head,
    _workloads,
    sample,
    top_k,
)
from examples.language_model import checkpoint, model, run, settings
from tf_hsm import Tree

_PEAK = _peaked_inputs.Peak(0.9, 1.0)
_ROOMY = _limits.Limits(1e12, 1e9)


@pytest.fixture
def here(monkeypatch):
    """Measures in this process, and the machine's rates only roughly."""
    monkeypatch.setattr(_machine, "run_alone", lambda f, *args: f(*args))
    monkeypatch.setattr(_machine, "use_threads", lambda threads: None)
    monkeypatch.setattr(_floors, "_STREAM_BYTES", 1 << 20)
    monkeypatch.setattr(_floors, "_MATRIX_SIZE", 64)


def _run(module, path, *arguments):
    """Calls a command; returns the result for its only head."""
    with flagsaver.flagsaver():
        flags.FLAGS([module.__name__, *arguments, f"--json={path}"])
        module.main(None)
    (entry,) = json.loads(path.read_text())["heads"]
    return entry, entry["result"]


def _source(distribution="peaked", tree="two_level", **sizes):
    case = _workloads.Case("tiny", tree, "uniform", "float32", **sizes)
    return _heads.RandomSource(case, distribution, _PEAK)


def _head(source, num_inputs=20):
    head, refusal = source.make(num_inputs, _ROOMY)
    assert refusal is None
    return head


def _settings(memory_limit=None):
    return _timing.Settings((), 2, 1, memory_limit, 20.0)


def test_top_k_is_timed_and_checked_against_brute_force(here, tmp_path, capsys):
    entry, result = _run(
        top_k,
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
        for name in _top_k_implementations.names([2, 64]):
            assert times[name]["p99_ms"] >= times[name]["p50_ms"] > 0
            assert f"\n{name} " in output
        assert times[_top_k_timing.FLOOR]["floor_ms"] > 0
        for name in ("exact", "log_probs + top_k"):
            assert checks[name] == {"inputs": 16, "bits": "same bits"}
        # There are 32 groups below the root's.
        assert checks["beam 64"]["found"] == checks["beam 64"]["proved"] == 1
        assert 0 < checks["beam 2"]["found"] <= 1
        assert checks["beam 2"]["proved"] <= checks["beam 2"]["complete"]
        assert len(times["exact"]["samples_ms"]) >= 2
    assert "same bits as brute force" in output


def test_draws_are_timed_and_checked(here, tmp_path, capsys):
    _, result = _run(
        sample,
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


def test_what_cannot_fit_is_refused(here):
    # 1,032 rows of 17 numbers are 70 kB; so are the full softmax's again.
    question = _top_k_timing.Question(5, (2,), (8,), sys.executable)
    result = _top_k_timing.measure(_source(), question, _settings(110e3))
    times = result["batches"][8]
    assert times["exact"]["p50_ms"] > 0
    for name in ("log_probs + top_k", "full softmax + top_k"):
        assert times[name]["refused"].startswith("needs ")
        text = _top_k_report.text(_source(), question, result)
        assert f"{name}: refused: needs" in text
    result = _top_k_timing.measure(_source(), question, _settings(60e3))
    assert result["refused"].startswith("needs 70.2 kB; ")
    question = _sample_timing.Question((8,), (1,), 50, 0.9)
    result = _sample_timing.measure(_source(), question, _settings(120e3))
    (table,) = result["tables"]
    refusal = table["times"]["full softmax + categorical"]["refused"]
    assert refusal.startswith("needs ")


@pytest.mark.parametrize(
    ("module", "argument", "message"),
    [
        (top_k, "--beam=0", "whole numbers from 1"),
        (top_k, "--batch=1,two", "whole numbers from 1"),
        (top_k, "--distribution=round", "must be of flat, peaked"),
        (top_k, "--peak=1", "peak"),
        (sample, "--num_samples=", "whole numbers from 1"),
        (sample, "--top_p=1.5", "top_p"),
    ],
)
def test_bad_flags_are_errors(module, argument, message):
    values = flags.FlagValues()
    values.append_flag_values(flags.FLAGS)
    with pytest.raises(flags.IllegalFlagValueError, match=message):
        values([module.__name__, argument])


def _log_probs(head):
    """`[n, rows]` of nodes, in float64, from the definition."""
    tree = head.tree
    logits = head.inputs.numpy().astype(float) @ np.transpose(
        head.parameters.weights.numpy().astype(float)
    )
    log_probs = np.zeros_like(logits)
    for group in range(tree.num_groups):
        rows = slice(*tree.group_offsets[group : group + 2])
        exps = np.exp(logits[:, rows])
        log_probs[:, rows] = np.log(exps / exps.sum(1, keepdims=True))
        if group > 0:
            log_probs[:, rows] += log_probs[:, [tree.group_parents[group]]]
    return log_probs


@pytest.mark.parametrize("tree", ["two_level", "binary"])
def test_a_search_needs_the_groups_above_the_last_of_the_best(tree):
    head = _head(_source(tree=tree, num_classes=90))
    reference = _top_k_reference.make(head, 4, 20)
    log_probs = _log_probs(head)
    classes = log_probs[:, head.tree.class_rows]
    order = np.argsort(-classes, axis=1)[:, :4]
    np.testing.assert_array_equal(reference.classes, order)
    kth = np.take_along_axis(classes, order[:, 3:], axis=1)
    needed = np.ones((20, head.tree.num_groups), bool)
    needed[:, 1:] = log_probs[:, head.tree.group_parents[1:]] > kth
    np.testing.assert_array_equal(reference.needed, needed)

    fanouts = np.diff(head.tree.group_offsets)
    rows = (needed * fanouts).sum(1)
    assert _top_k_reference.needs(reference, head.tree) == {
        "groups": needed.sum() / 20,
        "rows": rows.mean(),
    }
    # Where only the memory takes time, and not the inputs.
    rates = _floors.Rates(flops=1e30, read=1.0, read_write=1.0)
    inputs = 16 * 4
    one, ten = (
        _top_k_reference.floor_ms(reference, head, batch, rates) / 1000
        for batch in (1, 10)
    )
    assert one == pytest.approx(np.median(rows) * 16 * 4 + inputs)
    union = [
        (needed[half].any(0) * fanouts).sum()
        for half in (slice(10), slice(10, 20))
    ]
    assert ten == pytest.approx(np.median(union) * 16 * 4 + 10 * inputs)
    assert _top_k_reference.floor_ms(reference, head, 21, rates) is None


def test_what_is_asked_can_be_sent_to_another_process():
    for value in (
        _source(),
        _trained_head.TrainedSource("folder"),
        _top_k_timing.Question(5, (2,), (8,), "python"),
        _sample_timing.Question((8,), (1,), 50, 0.9),
    ):
        assert pickle.loads(pickle.dumps(value)) == value


def test_other_results_are_told():
    head = _head(_source())
    reference = _top_k_reference.make(head, 4, 20)

    def check(function, name="exact"):
        return _top_k_timing._check(name, function, head, reference, 10)

    calls = iter(range(0, 100, 10))

    def right(inputs):
        rows = slice(at := next(calls), at + len(inputs))
        return reference.log_probs[rows], reference.classes[rows]

    def wrong(inputs):
        log_probs, classes = right(inputs)
        return np.nextafter(log_probs, 0), classes

    assert check(right) == {"inputs": 20, "bits": "same bits"}
    calls = iter(range(0, 100, 10))
    assert check(wrong)["bits"] == "DIFFERENT"
    assert _top_k_timing.is_wrong({"checks": {1: {"exact": check(wrong)}}})
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
        lambda: Tree.balanced(60, 60),
        lambda: Tree.two_level(64),
        lambda: Tree.huffman(1 / np.arange(1, 50)),
    ],
)
def test_peaked_inputs_have_their_probability(make_tree):
    tree = make_tree()
    case = _workloads.Case(
        "tiny", "", "uniform", "float32", tree.num_classes, batch=30
    )
    # Rows that are orthogonal but for what they have in common.
    weights = tf.eye(tree.num_rows) + 0.5
    peak = _peaked_inputs.Peak(0.7, 1e-9)
    inputs = _heads._draw_peaked(case, tree, weights, peak)
    (classes,) = _workloads.draw_labels(case, 1)
    log_probs = tf_hsm.hierarchical_softmax_log_prob(
        weights, None, classes[:, None], inputs, tree
    )
    np.testing.assert_allclose(np.exp(log_probs), 0.7, rtol=1e-4)


def test_noise_is_the_deviation_of_logits():
    head = _head(
        _heads.RandomSource(
            _source().case, "peaked", _peaked_inputs.Peak(0.5, 3.0)
        ),
        2000,
    )
    noise = _peaked_inputs.noise(
        (2000, 16), 1 / 12, _peaked_inputs.Peak(0.5, 3.0)
    )
    logits = noise @ (head.parameters.weights.numpy().T - 0.5)
    assert logits.std() == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize(
    "arguments", [{}, {"top_k": 5}, {"top_p": 0.6}], ids=str
)
def test_wrong_draws_are_told(arguments):
    head = _head(_source(num_classes=60))
    expected, clarity = _sample_reference.make(head, {"it": arguments}, 8)
    probs = np.exp(_log_probs(head)[:8, head.tree.class_rows])
    assert clarity["top_1"] == pytest.approx(probs.max(1).mean(), rel=1e-5)
    classes = tf_hsm.hierarchical_softmax_sample(
        *head.parameters, head.inputs[:8], head.tree, 500, seed=3, **arguments
    ).numpy()
    check = _sample_reference.check(head, classes, expected["it"])
    assert check["right"] and check["draws"] == 4000
    # All classes alike; the best one only; those of another input.
    uniform = np.random.default_rng(0).integers(60, size=(8, 500))
    best = np.repeat(probs.argmax(1)[:, None], 500, axis=1)
    for wrong in (uniform, best, np.roll(classes, 1, axis=0)):
        check = _sample_reference.check(head, wrong, expected["it"])
        assert not check["right"]
    assert _sample_timing.is_wrong({"checks": {"it": check}})


def test_a_nucleus_is_the_fewest_classes_of_its_probability():
    of_input = _sample_reference._of_input
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


def test_calls_are_made_in_runs_on_other_inputs():
    made = {"fast": [], "slow": []}

    def timed(name, seconds):
        def run(first, count):
            made[name].append((first, count))
            return [seconds] * (count - 1) + [2 * seconds]

        return run

    result = _calls.measure(
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
    _calls.measure({"fast": timed("fast", 1e-4)}, 400, 1)
    assert made["fast"][-1] == (1, 1)


def test_inputs_of_calls_go_round():
    inputs = tf.reshape(tf.range(10), [5, 2])
    seen = []
    _calls.on_inputs(lambda x: seen.append(x.numpy()), inputs, 2)(1, 2)
    np.testing.assert_array_equal(seen[0], inputs[2:4])
    np.testing.assert_array_equal(seen[1], [inputs[4], inputs[0]])


def test_pytorch_answers_in_turns(tmp_path):
    path = tmp_path / "labels.npy"
    case = dataclasses.replace(_source().case, batch=40)
    np.save(path, _workloads.draw_labels(case, 1))
    spec = {
        "threads": 1,
        "num_classes": 1000,
        "width": 16,
        "cutoffs": (100, 300),
        "div_value": 4.0,
        "k": 5,
        "labels": str(path),
        "peak": _PEAK,
    }
    try:
        process = _peer_process.Process("_peer_torch_top_k", spec)
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    try:
        for what in ("predict", "log_prob"):
            answer = process.run([what, 8, 3], 2)
            assert len(answer["samples"]) == 3
            assert min(answer["samples"]) > 0
    finally:
        process.close()


@pytest.fixture
def trained(tmp_path):
    """Makes the folder of an untrained language model with a head."""
    text = tmp_path / "text.txt"
    lines = [f"word{i % 17} follows word{i % 5}" for i in range(900)]
    lines += [f"seen once : name{i}" for i in range(30)]
    text.write_text("\n".join(lines))

    def make(head):
        chosen = settings.Settings(
            corpus=str(text),
            head=head,
            branching=4,
            units=6,
            batch_size=3,
            steps=5,
            cell="rnn",
        )
        folder = tmp_path / head
        job = run.prepare(chosen, folder)
        checkpoint.save(folder, job.model, job.state)
        return job, folder, text

    return make


def test_a_trained_model_gives_its_hidden_vectors(trained, here):
    job, folder, text = trained("hierarchical")
    source = _trained_head.TrainedSource(str(folder))
    head, refusal = source.make(22, _ROOMY)
    assert refusal is None
    layer = job.model.get_layer("head")
    assert head.tree == layer.tree
    assert head.sizes.num_classes == len(job.text.words)
    np.testing.assert_array_equal(head.parameters.weights, layer.kernel)
    model.reset_states(job.model)
    tokens = job.held_out_windows[0][:2]
    hidden = [np.array(model.body(job.model)(window)) for window in tokens]
    hidden = np.concatenate(hidden).reshape(-1, 6)
    assert head.inputs.shape == (22, 6)
    gaps = abs(head.inputs.numpy()[:, None] - hidden).max(2)
    found = gaps.argmin(1)
    assert gaps.min(1).max() < 1e-6
    assert len(set(found)) == 22

    question = _top_k_timing.Question(3, (2,), (400,), sys.executable)
    # More than the text has.
    result = _top_k_timing.measure(source, question, _settings())
    assert not _top_k_timing.is_wrong(result)
    assert result["checks"][400]["exact"]["bits"] == "same bits"
    assert result["batches"][400]["full softmax + top_k"]["p50_ms"] > 0

    text.write_text(text.read_text() + "\nanother line")
    with pytest.raises(ValueError, match="not the one"):
        source.make(22, _ROOMY)


def test_a_trained_head_must_be_hierarchical(trained):
    _, folder, _ = trained("full")
    source = _trained_head.TrainedSource(str(folder))
    with pytest.raises(ValueError, match="FullSoftmax"):
        source.make(22, _ROOMY)


def test_the_full_softmax_is_one(here):
    head = _head(_source(num_classes=50))
    parameters = _implementations.make_parameters(50, head)
    function = _top_k_implementations.make(
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
