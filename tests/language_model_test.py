"""The language model example on a tiny synthetic corpus."""

import os
import pathlib
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.language_model import (
    batches,
    checkpoint,
    corpus,
    heads,
    model,
    optimizer,
    predictions,
    run,
    settings,
)

# (head, tree, cell): every head, tree and cell at least once.
RUNS = (
    ("hierarchical", "huffman", "lstm"),
    ("hierarchical", "two_level", "gru"),
    ("hierarchical", "balanced", "rnn"),
    ("hierarchical", "binary", "rnn"),
    ("full", "huffman", "rnn"),
    ("sampled", "huffman", "rnn"),
)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A file of sentences whose words mostly follow from the word before."""
    rng = random.Random(0)
    nouns = [f"noun{i}" for i in range(30)]
    lines = []
    for i in range(700):
        k = rng.randrange(30)
        lines.append(f"the {nouns[k]} sees a {nouns[k // 2]} and verb{k}s .")
        if i % 10 == 0:
            lines.append(f"seen once : name{i}")
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(lines))
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


@pytest.mark.parametrize("head", model.HEADS)
def test_log_probs_are_the_loss(text, tmp_path, head):
    job = run.prepare(make_settings(text, head=head), tmp_path)
    tokens, labels = (part[0] for part in job.held_out_windows)
    layer = job.model.get_layer("head")
    layer.bias.assign(np.linspace(-1, 1, layer.bias.shape[0]))
    model.reset_states(job.model)
    hidden = np.array(model.body(job.model)(tokens))
    log_probs = heads.log_probs(layer, hidden[:, -1])
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, rtol=1e-5)
    loss = np.array(layer(tf.constant(hidden), tf.constant(labels)))[:, -1]
    rows = np.arange(len(labels))
    np.testing.assert_allclose(-log_probs[rows, labels[:, -1]], loss, rtol=1e-4)


def test_resumed_run_equals_the_uninterrupted_one(text, tmp_path):
    chosen = make_settings(text, dropout=0.2, layers=2, cell="rnn", epochs=3)
    whole = run.prepare(chosen, tmp_path / "whole")
    whole.train()

    run.prepare(chosen, tmp_path / "resumed").train(deadline=1e-9)
    resumed = run.prepare(chosen, tmp_path / "resumed", resume=True)
    assert len(resumed.state.history) == 1
    resumed.train()

    for key in ("train_perplexity", "held_out_perplexity"):
        assert [entry[key] for entry in resumed.state.history] == pytest.approx(
            [entry[key] for entry in whole.state.history], rel=1e-4
        )
    for a, b in zip(
        resumed.model.weights + resumed.model.optimizer.variables,
        whole.model.weights + whole.model.optimizer.variables,
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4, err_msg=a.path)


def test_resume_refuses_other_settings_and_other_text(text, tmp_path):
    chosen = make_settings(text, epochs=1, cell="rnn")
    with pytest.raises(FileNotFoundError, match="no run to resume"):
        run.prepare(chosen, tmp_path, resume=True)
    run.prepare(chosen, tmp_path).train()
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


def test_lazy_adam_equals_adam_where_every_row_is_touched():
    start = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    dense = keras.Variable(start)
    sparse = keras.Variable(start)
    adam = keras.optimizers.Adam(0.1)
    lazy = optimizer.LazyAdam(0.1)
    rng = np.random.default_rng(1)
    for _ in range(3):
        rows = np.array([2, 0, 1, 3, 2, 2])
        values = rng.normal(size=(6, 3)).astype(np.float32)
        summed = np.zeros_like(start)
        np.add.at(summed, rows, values)
        adam.apply([tf.constant(summed)], [dense])
        lazy.apply([tf.IndexedSlices(values, rows, (4, 3))], [sparse])
    np.testing.assert_allclose(sparse, dense, rtol=1e-5)


def test_lazy_adam_leaves_other_rows():
    variable = keras.Variable(np.ones((3, 2), np.float32))
    lazy = optimizer.LazyAdam(0.1)
    for row in (0, 2):
        lazy.apply(
            [tf.IndexedSlices(np.ones((1, 2), np.float32), [row], (3, 2))],
            [variable],
        )
    assert (np.array(variable)[1] == 1).all()
    assert (np.array(variable)[[0, 2]] < 1).all()


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
