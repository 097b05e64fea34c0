"""Runs of the language model example that take seconds."""

import shutil

import keras
import numpy as np
import pytest

from examples.corpora import corpus
from examples.language_model import (
    checkpoint,
    model,
    optimization,
    plot,
    run,
    settings,
)
from tests.support.texts import write_sentences

_SMALL = {
    "branching": 8,
    "num_sampled": 16,
    "units": 24,
    "batch_size": 5,
    "steps": 7,
    "epochs": 2,
    "learning_rate": 0.02,
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A file of sentences whose words mostly follow from the word before."""
    return write_sentences(tmp_path_factory.mktemp("text"), 300)


@pytest.fixture(scope="module")
def loaded(text):
    """The corpus of that file."""
    return corpus.load(corpus.Options(str(text)))


def small_settings(text, **changes):
    """Settings for a run of seconds; unknown fields fail."""
    return settings.Settings(**{"corpus": str(text), **_SMALL, **changes})


def build(loaded, **changes):
    """The model of `small_settings` with these changes, by a fixed seed."""
    keras.utils.set_random_seed(1)
    chosen = small_settings("", **changes)
    return model.build(chosen, loaded, optimization.rate(chosen, 10))


def check_resumed(chosen, folder, monkeypatch):
    """Checks that a run goes on after a kill as if there had been none.

    A kill leaves the folder as it is at that moment. What is resumed is a copy
    of the folder within the last epoch, after a checkpoint in its middle; the
    run that is copied goes on to its end.

    Returns:
        The resumed `run.Job`, at its end.
    """
    # The pictures are another test's.
    monkeypatch.setattr(plot, "training_curve", lambda *_: None)
    whole = run.prepare(chosen, folder / "whole")
    middle = len(whole.windows["train"]) // 2 + 1
    save, saves = checkpoint.save, []

    def save_or_copy(*arguments):
        saves.append(arguments)
        if len(saves) == 2 * chosen.epochs:
            shutil.copytree(folder / "whole", folder / "resumed")
        save(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", save_or_copy)
        whole.train(save_every=middle)
    job = run.prepare(chosen, folder / "resumed", resume=True)
    assert (len(job.state.history), job.steps_done) == (
        chosen.epochs - 1,
        middle,
    )
    job.train()
    check_same_state(job, whole)
    return job


def check_same_state(a, b):
    """Checks that two `run.Job` have the same variables and perplexities."""
    for key in ("train_perplexity", "validation_perplexity"):
        assert [entry[key] for entry in a.state.history] == [
            entry[key] for entry in b.state.history
        ]
    for x, y in zip(variables(a.model), variables(b.model), strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy(), err_msg=x.path)


def variables(built):
    """The variables of a model and of all its optimizers."""
    own = getattr(built.get_layer("head"), "optimizer", None)
    return [
        *built.variables,
        *built.optimizer.variables,
        *(own.variables if own else []),
    ]
