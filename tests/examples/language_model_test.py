"""The language model example on a tiny synthetic corpus."""

import itertools
import json
import pathlib
import shutil

import numpy as np
import pytest

from examples.corpora import corpus
from examples.language_model import (
    batches,
    checkpoint,
    model,
    recurrent,
    run,
    settings,
)
from tests.support.texts import write_sentences
from tests.support.training import assert_same

_SMALL = {
    "branching": 8,
    "num_sampled": 16,
    "units": 24,
    "batch_size": 5,
    "steps": 7,
    "epochs": 2,
    "learning_rate": 0.02,
}


def small_settings(text, **changes):
    """Settings for a run of seconds; unknown fields fail."""
    return settings.Settings(**{"corpus": str(text), **_SMALL, **changes})


def check_resumed(chosen, folder):
    """Checks that an interrupted run of one epoch goes on as if it was not.

    Returns:
        The resumed `run.Job`, at its end.
    """
    whole = run.prepare(chosen, folder / "whole")
    whole.train()
    middle, steps = len(whole.windows["train"]) // 2 + 1, itertools.count(1)
    interrupted = run.prepare(chosen, folder / "resumed")
    interrupted.train(is_over=lambda: next(steps) == middle)
    job = run.prepare(chosen, folder / "resumed", resume=True)
    assert (job.state.history, job.steps_done) == ([], middle)
    job.train()
    for key in ("train_perplexity", "validation_perplexity"):
        assert job.state.history[0][key] == whole.state.history[0][key]
    assert_same(
        *(
            [*x.model.variables, *x.model.optimizer.variables]
            for x in (job, whole)
        )
    )
    return job


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A file of sentences whose words mostly follow from the word before."""
    return write_sentences(tmp_path_factory.mktemp("text"), 300)


@pytest.fixture(scope="module")
def trained(text, tmp_path_factory):
    """A finished run with the default tree and cell."""
    job = run.prepare(small_settings(text), tmp_path_factory.mktemp("trained"))
    job.train(save_every=50)
    return job


def test_rows_of_batches_continue_and_labels_are_the_next_tokens():
    windows = batches.Windows(np.arange(100, dtype=np.int32), 3, 7, "text")
    streams = np.concatenate([tokens for tokens, _ in windows], axis=1)
    np.testing.assert_array_equal(streams, np.arange(84).reshape(3, 28))
    for i, (inputs,) in enumerate(windows.dataset(first=2), 2):
        np.testing.assert_array_equal(inputs["tokens"], windows[i][0])
        np.testing.assert_array_equal(inputs["labels"], windows[i][0] + 1)
    assert i == len(windows) - 1 == 3


def test_a_run_learns_saves_and_predicts(trained, capsys):
    loss = trained.finish()
    last = trained.state.history[-1]
    assert last["epoch"] == trained.state.settings.epochs
    half = last["unigram_perplexity"] / 2
    assert last["train_perplexity"] < half > last["validation_perplexity"]
    assert 0 < loss < np.log(half)
    assert trained.loss("test") == pytest.approx(loss, abs=1e-5)
    assert trained.loss("valid") == pytest.approx(
        np.log(last["validation_perplexity"])
    )
    assert {path.name for path in trained.save_dir.iterdir()} == {
        *("model.keras", "vocabulary.json", "settings.json", "history.json")
    }
    history = (trained.save_dir / "history.json").read_text()
    assert json.loads(history) == trained.state.history
    shown = capsys.readouterr().out
    assert f"perplexity {np.exp(loss):.1f}." in shown
    written = shown.split("A text drawn from the model")[1].split("\n", 1)[1]
    assert written.strip() and "<unk>" not in written


@pytest.mark.parametrize(
    "changes",
    [
        {"body": "transformer", "tree": "flat", "tied": True},
        # Draws are counted, and states last from step to step.
        {"head": "sampled", "cell": "gru"},
    ],
)
def test_a_resumed_run_equals_the_uninterrupted_one(changes, text, tmp_path):
    chosen = small_settings(text, dropout=0.2, epochs=1, **changes)
    job = check_resumed(chosen, tmp_path)
    assert job.place() == "after its last epoch"
    (last,) = job.state.history
    assert last["validation_perplexity"] < last["unigram_perplexity"] / 2
    # The next epoch would begin as the first one did.
    for state in recurrent.states(job.model):
        assert not state.numpy().any()
    assert job.finish() == pytest.approx(job.loss("test"), abs=1e-5)


@pytest.mark.parametrize("name", settings.TREES)
def test_every_tree_has_the_classes_of_the_text(text, name):
    loaded = corpus.load(corpus.Options(str(text)))
    tree = model.make_tree(small_settings(text, tree=name), loaded)
    assert tree.num_classes == len(loaded.words), name
    # Up to 256 classes are one group of a tree from data.
    assert (tree.num_groups == 1) == (name in ("flat", "data"))


def test_more_epochs_go_on_from_those_done(text, trained, tmp_path, capsys):
    shutil.copytree(trained.save_dir, tmp_path, dirs_exist_ok=True)
    more = small_settings(text, epochs=4)
    job = run.prepare(more, tmp_path, resume=True)
    job.train(is_over=lambda: True)
    assert "epoch 3/4" in capsys.readouterr().out
    assert job.steps_done == 1
    _, state = checkpoint.load(tmp_path)
    assert state.settings == more
    assert state.history == trained.state.history
    num_steps = 2 * len(job.windows["train"])
    with pytest.raises(ValueError, match=f"done {num_steps + 1} steps, and"):
        run.prepare(small_settings(text), tmp_path, resume=True)


def test_an_earlier_run_is_set_aside(text, trained, tmp_path, capsys):
    shutil.copytree(trained.save_dir, tmp_path, dirs_exist_ok=True)
    chosen = small_settings(text, cell="gru")
    run.prepare(chosen, tmp_path)
    before = (trained.save_dir / "model.keras").read_bytes()
    assert (tmp_path / "earlier.keras").read_bytes() == before
    # A kill now must not bring the earlier run back.
    assert run.prepare(chosen, tmp_path, resume=True).steps_done == 0
    assert "starting from the beginning" in capsys.readouterr().out


def test_resume_refuses_other_settings_and_other_text(text, trained):
    folder = trained.save_dir
    with pytest.raises(ValueError, match="--units: 24 before, 8 now"):
        run.prepare(small_settings(text, units=8), folder, resume=True)
    original = pathlib.Path(text).read_text()
    try:
        pathlib.Path(text).write_text(original + "\nanother line")
        with pytest.raises(ValueError, match="text itself has changed"):
            run.prepare(small_settings(text), folder, resume=True)
    finally:
        pathlib.Path(text).write_text(original)


@pytest.mark.parametrize(
    ("changes", "message"),
    (
        ({"cell": "transformer"}, "--cell=transformer: must be one of rnn"),
        ({"units": "512;256"}, "--units=512;256: must be a whole number, or"),
        ({"dropout": 1.0}, "--dropout=1.0: must be below 1"),
        ({"tied": True}, "--tied: only the rows of --head=hierarchical --tree"),
    ),
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        settings.Settings(**changes)
