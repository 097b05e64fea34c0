"""The language model example on a tiny synthetic corpus."""

import dataclasses
import os
import pathlib
import shutil
import time

import numpy as np
import pytest
import tensorflow as tf

from examples.common import files, program
from examples.corpora import corpus
from examples.language_model import (
    callbacks,
    checkpoint,
    generation,
    head_share,
    model,
    predictions,
    run,
    settings,
    train,
    trees,
)
from tests.support.language_models import (
    check_resumed,
    check_same_state,
    check_same_variables,
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
    in_memory, reloaded = trained.finish()
    last = trained.state.history[-1]
    assert last["epoch"] == trained.state.settings.epochs
    assert last["validation_perplexity"] < last["unigram_perplexity"] / 2
    assert 0 < in_memory < np.log(last["unigram_perplexity"] / 2)
    assert reloaded == pytest.approx(in_memory, abs=1e-5)
    assert last["train_perplexity"] < last["unigram_perplexity"] / 2
    files = {path.name for path in folder.iterdir()}
    assert files >= {
        "model.keras",
        "vocabulary.json",
        "settings.json",
        "history.json",
    }
    assert not any(name.startswith(".") for name in files)
    shown = capsys.readouterr().out
    assert f"perplexity {np.exp(in_memory):.1f}." in shown
    assert f"validation {last['validation_perplexity']:.1f}" not in shown
    assert "top 5:" in shown
    written = shown.split("A text drawn from the model")[1].split("\n", 1)[1]
    assert written.strip() and "<unk>" not in written
    # When time is over, a part of the text is enough.
    loss, num_windows = trained.loss("test", deadline=0)
    assert num_windows == 1
    assert trained.loss("test", num_windows=1) == (loss, 1)
    loss, _ = trained.loss("valid")
    assert loss == pytest.approx(np.log(last["validation_perplexity"]))


def test_a_check_on_part_of_the_text_says_so(trained, monkeypatch, capsys):
    loaded = trained.model, trained.state
    monkeypatch.setattr(checkpoint, "load", lambda _: loaded)
    monkeypatch.setattr(predictions, "table", lambda *_: "")
    monkeypatch.setattr(generation, "generate", lambda *_, **__: [""])
    monkeypatch.setattr(run, "_CHECK_S", 0)
    trained.finish(deadline=0)
    part = 1 / len(trained.windows["test"])
    assert f", on the first {part:.0%} of that text." in capsys.readouterr().out


def test_validation_within_an_epoch_changes_nothing(text, tmp_path):
    """This head is adaptive; tests of resumed runs train the others."""
    chosen = small_settings(text, head="adaptive", cell="gru", epochs=1)
    plain, validated = (
        run.prepare(chosen, tmp_path / name) for name in ("plain", "validated")
    )
    plain.train()
    validated.train(validate_every=0.05)
    check_same_variables(validated, plain)
    (last,), (*within, end) = (job.state.history for job in (plain, validated))
    assert within and not any(entry["ends_epoch"] for entry in within)
    assert all(0 < entry["epoch"] <= 1 for entry in within)
    for key in ("train_perplexity", "validation_perplexity"):
        assert last[key] == end[key]
    assert list((tmp_path / "validated" / "tensorboard").iterdir())
    assert last["validation_perplexity"] < last["unigram_perplexity"] / 2
    reloaded, _ = checkpoint.load(tmp_path / "plain")
    loss, _ = plain.loss("valid", reloaded)
    assert np.exp(loss) == pytest.approx(
        last["validation_perplexity"], rel=1e-5
    )


def test_time_that_is_over_before_the_first_step(text, tmp_path):
    message = "^error: --max_minutes=1e-09 is over before the first step: "
    arguments = [f"--corpus={text}", f"--save_dir={tmp_path}"]
    with pytest.raises(SystemExit, match=message):
        # Long ago, when this process began.
        program.run(
            train.main, train.flags, ["train", *arguments, "--max_minutes=1e-9"]
        )
    assert not list(tmp_path.iterdir())


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
    model.reset_states(job.model)
    hidden = np.array(model.body(job.model)(tokens))
    log_probs = layer.log_probs(hidden[:, -1]).numpy()
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, rtol=1e-5)
    loss = np.array(layer(tf.constant(hidden), tf.constant(labels)))[:, -1]
    rows = np.arange(len(labels))
    np.testing.assert_allclose(-log_probs[rows, labels[:, -1]], loss, rtol=1e-4)


def test_resumed_run_equals_the_uninterrupted_one(
    text, tmp_path, monkeypatch, capsys
):
    """Ctrl-C and the end of its time did twice each, and checkpoints not."""
    chosen = small_settings(
        text, dropout=0.2, head="full", cell="rnn", epochs=1
    )
    whole = run.prepare(chosen, tmp_path / "whole")
    whole.train()
    num_steps = len(whole.windows["train"])

    def resume(steps_done):
        job = run.prepare(chosen, tmp_path / "resumed", resume=True)
        assert job.steps_done == steps_done
        return job

    def interrupt(job, step):
        said = f"The run is saved, {step} steps into epoch 1"
        with pytest.raises(KeyboardInterrupt, match=said):
            job.train(
                interrupted=lambda: job.model.optimizer.iterations >= step
            )

    # Ctrl-C in a step; one step in the time there is; then all, but no
    # validation; Ctrl-C in that; then that.
    interrupt(resume(0), 20)
    resume(20).train(deadline=1e-9)
    said = capsys.readouterr().out
    assert "\n--max_minutes is over, 21 steps into epoch 1. The run is" in said

    save, steps = checkpoint.save, []

    def record(folder, trained, state):
        steps.append(int(trained.optimizer.iterations))
        save(folder, trained, state)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", record)
        patch.setattr(run.Job, "_validation_ends_after", lambda *_: True)
        resume(21).train(save_every=50)
    assert steps == [*range(71, num_steps, 50), num_steps] and steps[2:]
    interrupt(resume(num_steps), num_steps)
    assert not checkpoint.load_run(tmp_path / "resumed").history
    resumed = resume(num_steps)
    capsys.readouterr()
    resumed.train()
    # What was not measured is not shown.
    assert "nan" not in capsys.readouterr().out
    (last,) = resumed.state.history
    assert last["tokens_per_s"] is None
    assert last["validation_perplexity"] < last["unigram_perplexity"] / 2

    # The next epoch would begin as the first one did.
    for layer in resumed.model.layers:
        for state in getattr(layer, "states", ()):
            assert not state.numpy().any()
    assert not np.any([v.numpy() for v in resumed.model.metrics_variables])
    check_same_state(resumed, whole)


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
    share = head_share.head_share(job.model, *job.windows["train"][0], 1e3)
    assert 0 < share < 1
    assert head.step.numpy() == len(job.windows["train"])
    np.testing.assert_array_equal(head.kernel, kernel)


def test_more_epochs_go_on_from_those_done(
    text, trained, folder, tmp_path, capsys
):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    more = small_settings(text, epochs=4)
    job = run.prepare(more, tmp_path, resume=True)
    said = capsys.readouterr().out
    assert "--epochs: 2 before, 4 now. The learning rate is now that" in said
    job.train(deadline=0)
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
        chosen = train._settings(values.flag_values_dict(), folder)
        assert chosen == dataclasses.replace(trained.state.settings, **changes)


def test_a_share_of_the_head_that_cannot_be_is_not_shown(
    trained, monkeypatch, capsys
):
    tokens, labels = trained.windows["train"][0]
    share = head_share.head_share(trained.model, tokens, labels, 1e3)
    assert 0 < share < 1
    assert head_share.head_share(trained.model, tokens, labels, 1e-6) is None
    assert head_share.head_share(trained.model, tokens, labels, np.nan) is None
    # It is a share of the work: waiting for the machine is none.
    step = callbacks.Progress(1)
    step.params = {"steps": 1}
    step.on_train_begin()
    step.on_train_batch_begin(0)
    time.sleep(0.2)
    step.on_train_batch_end(0, {"loss": 1.0})
    assert step.step_ms >= 200 > 100 > step.processor_ms


def test_an_earlier_run_is_set_aside(text, trained, folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    curves = sorted(path.name for path in (folder / "tensorboard").iterdir())
    chosen = small_settings(text, cell="gru")
    run.prepare(chosen, tmp_path)
    earlier = (tmp_path / "earlier_tensorboard").iterdir()
    assert sorted(path.name for path in earlier) == curves != []
    assert not (tmp_path / "tensorboard").exists()
    for name, old in ("earlier.keras", "model.keras"), ("curve.png",) * 2:
        assert (tmp_path / name).read_bytes() == (folder / old).read_bytes()
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


def test_line_breaks_are_shown_with_their_indentation():
    assert predictions.visible("\n    ") == r"\n+4"
    assert predictions.visible("word") == "word"
