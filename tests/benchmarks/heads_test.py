"""The heads and inputs that top-k and sampling are timed on, and calls."""

import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from benchmarks.common import workloads
from benchmarks.heads import calls, heads, peaked_inputs, trained_head
from benchmarks.top_k import timing
from examples.language_model import (
    checkpoint,
    model,
    recurrent,
    run,
    settings,
)
from tests.support.benchmarks import (
    ROOMY,
    make_head,
    make_settings,
    measure_here,
    random_source,
)
from tf_hsm import Tree


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


def test_noise_is_the_deviation_of_logits():
    head = make_head(
        heads.RandomSource(
            random_source().case, "peaked", peaked_inputs.Peak(0.5, 3.0)
        ),
        2000,
    )
    noise = peaked_inputs.noise(
        (2000, 16), 1 / 12, peaked_inputs.Peak(0.5, 3.0)
    )
    logits = noise @ (head.parameters.weights.numpy().T - 0.5)
    assert logits.std() == pytest.approx(3.0, rel=0.05)


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


def test_a_trained_model_gives_its_hidden_vectors(trained, monkeypatch):
    measure_here(monkeypatch)
    job, folder, text = trained("hierarchical")
    source = trained_head.TrainedSource(str(folder))
    head, refusal = source.make(22, ROOMY)
    assert refusal is None
    layer = job.model.get_layer("head")
    assert head.tree == layer.tree
    assert head.sizes.num_classes == len(job.text.words)
    np.testing.assert_array_equal(head.parameters.weights, layer.kernel)
    recurrent.reset_states(job.model)
    body, windows = model.body(job.model), job.windows["valid"]
    hidden = [np.array(body(windows[i][0])) for i in range(2)]
    hidden = np.concatenate(hidden).reshape(-1, 6)
    assert head.inputs.shape == (22, 6)
    gaps = abs(head.inputs.numpy()[:, None] - hidden).max(2)
    found = gaps.argmin(1)
    assert gaps.min(1).max() < 1e-6
    assert len(set(found)) == 22

    question = timing.Question(3, (2,), (400,), sys.executable)
    # More than the text has.
    result = timing.measure(source, question, make_settings())
    assert not timing.is_wrong(result)
    assert result["checks"][400]["exact"]["bits"] == "same bits"
    assert result["batches"][400]["full softmax + top_k"]["p50_ms"] > 0

    text.write_text(text.read_text() + "\nanother line")
    with pytest.raises(ValueError, match="not the one"):
        source.make(22, ROOMY)


def test_a_trained_head_must_be_hierarchical(trained):
    _, folder, _ = trained("sampled")
    source = trained_head.TrainedSource(str(folder))
    with pytest.raises(ValueError, match="SampledSoftmax"):
        source.make(22, ROOMY)


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


def test_inputs_of_calls_go_round():
    inputs = tf.reshape(tf.range(10), [5, 2])
    seen = []
    calls.on_inputs(lambda x: seen.append(x.numpy()), inputs, 2)(1, 2)
    np.testing.assert_array_equal(seen[0], inputs[2:4])
    np.testing.assert_array_equal(seen[1], [inputs[4], inputs[0]])
