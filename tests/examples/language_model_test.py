"""The language model example on a tiny synthetic corpus."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from examples.language_model import (
    batches,
    checkpoint,
    corpus,
    model,
    predictions,
    run,
    settings,
)
from tests.support.texts import write_sentences

# (head, tree, cell): every head, tree and cell at least once.
RUNS = (
    ("hierarchical", "huffman", "lstm"),
    ("hierarchical", "two_level", "gru"),
    ("hierarchical", "balanced", "rnn"),
    ("hierarchical", "binary", "rnn"),
    ("hierarchical", "clustered", "rnn"),
    ("hierarchical", "two_level_shuffled", "rnn"),
    ("adaptive", "huffman", "rnn"),
    ("full", "huffman", "rnn"),
    ("sampled", "huffman", "rnn"),
)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A file of sentences whose words mostly follow from the word before."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    write_sentences(path)
    return str(path)


def make_settings(text, **changes):
    """Settings for a run of seconds; unknown fields fail."""
    small = {
        "corpus": text,
        "branching": 8,
        "num_sampled": 16,
        "units": 24,
        "batch_size": 5,
        "steps": 7,
        "epochs": 2,
        "learning_rate": 0.02,
    }
    return settings.Settings(**{**small, **changes})


@pytest.mark.parametrize(("head", "tree", "cell"), RUNS)
def test_run_learns_saves_and_predicts(
    text, tmp_path, capsys, head, tree, cell
):
    chosen = make_settings(text, head=head, tree=tree, cell=cell)
    job = run.prepare(chosen, tmp_path)
    job.train()
    in_memory, reloaded = job.finish()

    last = job.state.history[-1]
    assert last["epoch"] == chosen.epochs
    assert last["held_out_perplexity"] < last["unigram_perplexity"] / 2
    assert in_memory == pytest.approx(np.log(last["held_out_perplexity"]))
    assert reloaded == pytest.approx(in_memory, abs=1e-5)
    assert last["head_ms"] > 0
    files = {path.name for path in tmp_path.iterdir()}
    assert files >= {
        "model.keras",
        "vocabulary.json",
        "settings.json",
        "history.json",
    }
    assert not any(name.startswith(".") for name in files)
    shown = capsys.readouterr().out
    assert "held-out" in shown
    assert "top 5:" in shown
    written = shown.split("A text drawn from the model")[1].split("\n", 1)[1]
    assert written.strip() and "<unk>" not in written


@pytest.mark.parametrize("head", model.HEADS)
def test_log_probs_are_the_loss(text, tmp_path, head):
    job = run.prepare(make_settings(text, head=head), tmp_path)
    tokens, labels = (part[0] for part in job.held_out_windows)
    layer = job.model.get_layer("head")
    bias = layer.head_bias if head == "adaptive" else layer.bias
    bias.assign(np.linspace(-1, 1, bias.shape[0]))
    model.reset_states(job.model)
    hidden = np.array(model.body(job.model)(tokens))
    log_probs = layer.log_probs(hidden[:, -1]).numpy()
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, rtol=1e-5)
    loss = np.array(layer(tf.constant(hidden), tf.constant(labels)))[:, -1]
    rows = np.arange(len(labels))
    np.testing.assert_allclose(-log_probs[rows, labels[:, -1]], loss, rtol=1e-4)


@pytest.mark.parametrize(
    ("head", "cell", "layers"), (("hierarchical", "rnn", 2), ("full", "gru", 1))
)
def test_resumed_run_equals_the_uninterrupted_one(
    text, tmp_path, monkeypatch, head, cell, layers
):
    chosen = make_settings(
        text, dropout=0.2, head=head, cell=cell, layers=layers
    )
    whole = run.prepare(chosen, tmp_path / "whole")
    whole.train()

    save = checkpoint.save
    steps = []

    def save_twice(folder, trained, state):
        steps.append(int(trained.optimizer.iterations))
        if len(steps) > 2:
            raise InterruptedError
        save(folder, trained, state)

    resumed = run.prepare(chosen, tmp_path / "resumed")
    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        patch.setattr(checkpoint, "save", save_twice)
        resumed.train(save_every=50)
    assert steps == [50, 100, 150]
    # From within the first epoch to its end, and from there to the last.
    for steps_done, deadline in ((100, 1e-9), (0, None)):
        resumed = run.prepare(chosen, tmp_path / "resumed", resume=True)
        assert resumed.steps_done == steps_done
        resumed.train(deadline)

    # The next epoch would begin as the first one did.
    for layer in resumed.model.layers:
        for state in getattr(layer, "states", ()):
            assert not state.numpy().any()
    assert not np.any([v.numpy() for v in resumed.model.metrics_variables])

    for key in ("train_perplexity", "held_out_perplexity"):
        assert [entry[key] for entry in resumed.state.history] == [
            entry[key] for entry in whole.state.history
        ]
    for a, b in zip(
        resumed.model.variables + resumed.model.optimizer.variables,
        whole.model.variables + whole.model.optimizer.variables,
        strict=True,
    ):
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=a.path)


def test_an_earlier_run_is_set_aside(text, tmp_path, capsys):
    chosen = make_settings(text, epochs=1, cell="rnn")
    run.prepare(chosen, tmp_path).train()
    first = (tmp_path / "model.keras").read_bytes()
    run.prepare(make_settings(text, cell="gru"), tmp_path)
    assert (tmp_path / "earlier.keras").read_bytes() == first
    # A kill now must not bring the earlier run back.
    job = run.prepare(make_settings(text, cell="gru"), tmp_path, resume=True)
    assert job.steps_done == 0
    assert "starting from the beginning" in capsys.readouterr().out


def test_resume_refuses_other_settings_and_other_text(text, tmp_path, capsys):
    chosen = make_settings(text, epochs=1, cell="rnn")
    run.prepare(chosen, tmp_path, resume=True).train()
    assert "starting from the beginning" in capsys.readouterr().out
    with pytest.raises(ValueError, match="--units: 24 before, 8 now"):
        run.prepare(
            make_settings(text, epochs=1, cell="rnn", units=8),
            tmp_path,
            resume=True,
        )
    original = pathlib.Path(text).read_text()
    try:
        pathlib.Path(text).write_text(original + "\nanother line")
        with pytest.raises(ValueError, match="text itself has changed"):
            run.prepare(chosen, tmp_path, resume=True)
    finally:
        pathlib.Path(text).write_text(original)


@pytest.mark.parametrize(
    ("changes", "message"),
    (
        ({"cell": "transformer"}, "--cell=transformer: must be one of rnn"),
        ({"head": "none"}, "--head=none: must be one of"),
        ({"tree": "oak"}, "--tree=oak: must be one of"),
        ({"units": 0}, "--units=0: must be at least 1"),
        ({"min_count": 1}, "--min_count=1: must be at least 2"),
        ({"dropout": 1.0}, "--dropout=1.0: must be below 1"),
        ({"learning_rate": 0.0}, "--learning_rate=0.0: must be above 0"),
    ),
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        settings.Settings(**changes)


def test_bad_corpora_are_named(text, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        corpus.load(str(tmp_path / "missing"), 2)
    with pytest.raises(ValueError, match=r"held-out text has .* tokens"):
        run.prepare(make_settings(text, batch_size=100), tmp_path)
    (tmp_path / "even.txt").write_text("a b\n" * 500)
    with pytest.raises(ValueError, match="never be trained"):
        corpus.load(str(tmp_path / "even.txt"), 2)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ValueError, match="has no text"):
        corpus.load(str(tmp_path / "empty.txt"), 2)


def test_documents_are_held_out_whole(tmp_path):
    for i in range(40):
        (tmp_path / f"{i}.txt").write_text(f"common only{i} only{i} once{i}")
    loaded = corpus.load(str(tmp_path), 2)
    held_out = [loaded.words[c] for c in loaded.held_out]
    # A held-out document's own words are no class.
    assert held_out == ["common", "<unk>", "<unk>", "<unk>", "<eof>"] * 2
    assert loaded.counts.tolist() == np.bincount(loaded.train).tolist()
    assert list(loaded.counts) == sorted(loaded.counts, reverse=True)
    assert loaded.digest == corpus.load(str(tmp_path), 2).digest


def test_unigram_perplexity_of_equal_counts_is_their_number():
    loaded = corpus.Corpus(
        words=("a", "b", "c", "<unk>"),
        counts=np.full(4, 9),
        train=np.zeros(36, np.int32),
        held_out=np.zeros(1, np.int32),
        unknown=3,
        digest="",
    )
    labels = np.array([[0, 3], [1, 2]])
    assert loaded.unigram_perplexity(labels) == pytest.approx(4)


def test_windows_continue_each_other_and_labels_are_the_next_token():
    tokens, labels = batches.windows(np.arange(50), 3, 4, "text")
    assert tokens.shape == labels.shape == (4, 3, 4)
    np.testing.assert_array_equal(labels, tokens + 1)
    np.testing.assert_array_equal(tokens[1:, :, 0], tokens[:-1, :, -1] + 1)
    assert np.unique(tokens).size == tokens.size


def test_interrupted_save_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "history.json"
    checkpoint.write_json(path, ["earlier"])
    with pytest.raises(TypeError):
        checkpoint.write_json(path, ["later", object()])
    assert path.read_text() == '[\n "earlier"\n]'
    assert os.listdir(tmp_path) == ["history.json"]


def test_line_breaks_are_shown_with_their_indentation():
    assert predictions.visible("\n    ") == r"\n+4"
    assert predictions.visible("word") == "word"
