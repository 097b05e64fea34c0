"""The language model example on a tiny synthetic corpus."""

import dataclasses
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from examples.common import files, program
from examples.corpora import corpus
from examples.language_model import (
    checkpoint,
    head_share,
    model,
    recurrent,
    run,
    settings,
    train,
    trees,
)
from tests.support.language_models import (
    check_resumed,
    check_same_state,
    small_settings,
)
from tests.support.texts import write_sentences


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A file of sentences whose words mostly follow from the word before."""
    return str(write_sentences(tmp_path_factory.mktemp("text")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of `trained`."""
    return tmp_path_factory.mktemp("trained")


@pytest.fixture(scope="module")
def trained(text, folder):
    """A finished run with the default tree and cell."""
    job = run.prepare(small_settings(text), folder)
    job.train()
    return job


def test_run_learns_saves_and_predicts(trained, folder, capsys):
    loss = trained.finish()
    last = trained.state.history[-1]
    assert last["epoch"] == trained.state.settings.epochs
    assert last["validation_perplexity"] < last["unigram_perplexity"] / 2
    assert 0 < loss < np.log(last["unigram_perplexity"] / 2)
    assert trained.loss("test") == pytest.approx(loss, abs=1e-5)
    assert last["train_perplexity"] < last["unigram_perplexity"] / 2
    files = {path.name for path in folder.iterdir()}
    assert files >= {
        "model.keras",
        "vocabulary.json",
        "settings.json",
        "history.json",
        "curve.png",
    }
    assert not any(name.startswith(".") for name in files)
    shown = capsys.readouterr().out
    assert f"perplexity {np.exp(loss):.1f}." in shown
    written = shown.split("A text drawn from the model")[1].split("\n", 1)[1]
    assert written.strip() and "<unk>" not in written
    assert trained.loss("valid") == pytest.approx(
        np.log(last["validation_perplexity"])
    )
    assert json.loads((folder / "history.json").read_text()) == (
        trained.state.history
    )


def test_resumed_run_equals_the_uninterrupted_one(text, tmp_path, capsys):
    """Each start takes some steps and saves them, the last one the rest."""
    chosen = small_settings(
        text, dropout=0.2, head="full", cell="rnn", epochs=1
    )
    whole = run.prepare(chosen, tmp_path / "whole")
    whole.train()
    num_steps = len(whole.windows["train"])
    for before, after in ((0, 20), (20, 21), (21, num_steps)):
        job = run.prepare(chosen, tmp_path / "resumed", resume=True)
        assert job.steps_done == before
        iterations = job.model.optimizer.iterations
        job.train(is_over=lambda n=after, i=iterations: i >= n)
        if after < num_steps:
            assert job.steps_done == after
            assert job.place() == f"{after} steps into epoch 1"
            assert not checkpoint.load_run(tmp_path / "resumed").history
    assert job.place() == "after its last epoch"
    (last,) = job.state.history
    assert last["validation_perplexity"] < last["unigram_perplexity"] / 2
    # The next epoch would begin as the first one did.
    for state in recurrent.states(job.model):
        assert not state.numpy().any()
    assert not np.any([v.numpy() for v in job.model.metrics_variables])
    check_same_state(job, whole)


def test_checkpoints_within_an_epoch(text, tmp_path, monkeypatch):
    job = run.prepare(small_settings(text, epochs=1), tmp_path)
    num_steps, steps = len(job.windows["train"]), []
    monkeypatch.setattr(
        checkpoint,
        "save",
        lambda folder, model, state: steps.append(
            int(model.optimizer.iterations)
        ),
    )
    job.train(save_every=50)
    assert steps == [*range(50, num_steps, 50), num_steps] and steps[2:]


def test_the_commands_time_is_over(text, tmp_path, capsys):
    program.run(
        train.main,
        train.flags,
        [
            "train",
            *(f"--corpus={text}", f"--save_dir={tmp_path}", "--cell=rnn"),
            *("--units=8", "--batch_size=5", "--steps=7"),
            "--max_minutes=1e-9",
        ],
    )
    said = capsys.readouterr().out
    assert "--max_minutes is over, 1 steps into epoch 1. The run is" in said
    assert checkpoint.exists(tmp_path)


def test_every_tree_has_the_classes_of_the_text(text):
    loaded = corpus.load(corpus.Options(text))
    assert tuple(trees.TREES) == settings.TREES
    for name, build in trees.TREES.items():
        tree = build(loaded, 8, 1)
        assert tree.num_classes == len(loaded.words), name
        # Up to 256 classes are one group of a tree from data.
        assert (tree.num_groups == 1) == (name in ("flat", "data"))


@pytest.mark.parametrize("head", settings.HEADS)
def test_log_probs_are_the_loss(text, tmp_path, head):
    job = run.prepare(small_settings(text, head=head, cell="rnn"), tmp_path)
    tokens, labels = job.windows["valid"][0]
    layer = job.model.get_layer("head")
    bias = layer.head_bias if head == "adaptive" else layer.bias
    bias.assign(np.linspace(-1, 1, bias.shape[0]))
    recurrent.reset_states(job.model)
    hidden = np.array(model.body(job.model)(tokens))
    log_probs = layer.log_probs(hidden[:, -1]).numpy()
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, rtol=1e-5)
    loss = np.array(layer(tf.constant(hidden), tf.constant(labels)))[:, -1]
    rows = np.arange(len(labels))
    np.testing.assert_allclose(-log_probs[rows, labels[:, -1]], loss, rtol=1e-4)


def test_a_resumed_run_draws_the_same_classes(tmp_path, monkeypatch):
    """Whether the head was timed or not."""
    text = write_sentences(tmp_path, 300)
    chosen = small_settings(
        text, dropout=0.2, head="sampled", cell="rnn", epochs=1
    )
    job = check_resumed(chosen, tmp_path, monkeypatch)
    last = job.state.history[-1]
    assert last["validation_perplexity"] < last["unigram_perplexity"] / 2
    head = job.model.get_layer("head")
    assert head.step.numpy() == len(job.windows["train"])
    kernel = head.kernel.numpy()
    window = job.windows["train"][0]
    assert 0 < head_share.head_share(job.model, *window, 1e3) < 1
    # A share above 1 is a fault of the times.
    assert head_share.head_share(job.model, *window, 1e-6) is None
    assert head.step.numpy() == len(job.windows["train"])
    np.testing.assert_array_equal(head.kernel, kernel)


def test_more_epochs_go_on_from_those_done(
    text, trained, folder, tmp_path, capsys
):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    more = small_settings(text, epochs=4)
    job = run.prepare(more, tmp_path, resume=True)
    job.train(is_over=lambda: True)
    assert "epoch 3/4" in capsys.readouterr().out
    assert job.steps_done == 1
    loaded, state = checkpoint.load(tmp_path)
    assert state.settings == more
    assert state.history == trained.state.history
    # The rate is that of a run of four epochs: half-way, half of it and more.
    num_steps = 2 * len(job.windows["train"])
    rate = float(loaded.optimizer._learning_rate(num_steps))
    assert rate == pytest.approx(0.02 * (1 + 0.05) / 2)
    with pytest.raises(ValueError, match=f"done {num_steps + 1} steps, and"):
        run.prepare(small_settings(text), tmp_path, resume=True)


def test_flags_of_a_resumed_run(trained, folder):
    """Those not given are as they were."""
    values = train.flags.values
    for given, changes in (([], {}), (["--epochs=5"], {"epochs": 5})):
        for name in values:
            values[name].unparse()
        values(["train", "--resume", *given])
        chosen = train.chosen_settings(folder, resume=True)
        assert chosen == dataclasses.replace(trained.state.settings, **changes)


def test_an_earlier_run_is_set_aside(text, trained, folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    chosen = small_settings(text, cell="gru")
    run.prepare(chosen, tmp_path)
    assert (tmp_path / "earlier.keras").read_bytes() == (
        folder / "model.keras"
    ).read_bytes()
    # A kill now must not bring the earlier run back.
    job = run.prepare(chosen, tmp_path, resume=True)
    assert job.steps_done == 0
    assert "starting from the beginning" in capsys.readouterr().out


def test_resume_refuses_other_settings_and_other_text(text, trained, folder):
    with pytest.raises(ValueError, match="--units: 24 before, 8 now"):
        run.prepare(small_settings(text, units=8), folder, resume=True)
    original = pathlib.Path(text).read_text()
    try:
        pathlib.Path(text).write_text(original + "\nanother line")
        with pytest.raises(ValueError, match="text itself has changed"):
            run.prepare(small_settings(text), folder, resume=True)
    finally:
        pathlib.Path(text).write_text(original)


def test_too_little_text_is_named(text, tmp_path):
    with pytest.raises(ValueError, match=r"The train part has .* tokens"):
        run.prepare(small_settings(text, batch_size=10_000), tmp_path)


def test_interrupted_save_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "history.json"
    files.write_json(path, ["earlier"])
    with pytest.raises(TypeError):
        files.write_json(path, ["later", object()])
    assert path.read_text() == '[\n "earlier"\n]'
    assert os.listdir(tmp_path) == ["history.json"]
