"""The language model example on a tiny synthetic corpus."""

import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from examples.corpora import corpus
from examples.language_model import (
    checkpoint,
    model,
    reading,
    recurrent,
    run,
    settings,
    train,
)
from tests.support.language_models import check_resumed, small_settings
from tests.support.texts import write_sentences


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
def test_a_resumed_run_equals_the_uninterrupted_one(
    changes, text, tmp_path, monkeypatch, capsys
):
    chosen = small_settings(text, dropout=0.2, epochs=1, **changes)
    job = check_resumed(chosen, tmp_path, monkeypatch)
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


@pytest.mark.parametrize(
    "changes",
    [{"cell": "gru", "units": "24,12"}, {"body": "transformer"}],
)
def test_a_window_is_read_as_its_tokens_one_by_one(text, changes):
    """A Transformer sees the last window, a recurrent layer all tokens."""
    loaded = corpus.load(corpus.Options(str(text)))
    chosen = small_settings(text, **changes)
    body = model.body(model.build(chosen, loaded, 0.1))
    rng = np.random.default_rng(0)
    for weight in body.trainable_weights:
        weight.assign(rng.normal(scale=0.3, size=weight.shape))
    windows = rng.permuted(np.resize(loaded.train, (2, 5, 7)), axis=2)
    step, state = reading.reader(body, 5)
    for window in windows:
        whole = np.array(body(window))
        for t in range(7):
            hidden, state = step(window[:, t], state)
        np.testing.assert_allclose(hidden, whole[:, -1], atol=1e-5)


def test_more_epochs_go_on_from_those_done(text, trained, tmp_path, capsys):
    shutil.copytree(trained.save_dir, tmp_path, dirs_exist_ok=True)
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


def test_flags_of_a_resumed_run(trained, tmp_path):
    """Flags that are not given are as they were."""
    values = train.flags.values
    for given, changes in (([], {}), (["--epochs=5"], {"epochs": 5})):
        for name in values:
            values[name].unparse()
        values(["train", "--resume", *given])
        chosen = train.chosen_settings(trained.save_dir, resume=True)
        assert chosen == dataclasses.replace(trained.state.settings, **changes)
        new = train.chosen_settings(tmp_path, resume=True)
        assert new == dataclasses.replace(settings.Settings(), **changes)


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


def test_too_little_text_is_named(text, tmp_path):
    with pytest.raises(ValueError, match=r"The train part has .* tokens"):
        run.prepare(small_settings(text, batch_size=10_000), tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    (
        ({"cell": "transformer"}, "--cell=transformer: must be one of rnn"),
        ({"units": ""}, "--units=: must have a number"),
        ({"units": "512,0"}, "--units=512,0: must be at least 1"),
        ({"units": "512;256"}, "--units=512;256: must be a whole number, or"),
        ({"dropout": 1.0}, "--dropout=1.0: must be below 1"),
        ({"learning_rate": 0.0}, "--learning_rate=0.0: must be above 0"),
        (
            {"body": "transformer", "units": "8,4"},
            "--units=8,4: all blocks of --body=transformer have one width",
        ),
        (
            {"body": "transformer", "attention_heads": 3},
            "--attention_heads=3: must divide --units=128",
        ),
        ({"tied": True}, "--tied: only the rows of --head=hierarchical --tree"),
    ),
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        settings.Settings(**changes)


def test_flags_are_read_without_tensorflow():
    code = (
        "import sys\n"
        f"sys.path[:] = {sys.path!r}\n"
        "from examples.language_model import train\n"
        "train.flags.values(['train', '--units=8,4'])\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
