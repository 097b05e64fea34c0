"""Runs of the language model example that take seconds."""

import shutil

import numpy as np

from examples.language_model import checkpoint, run, settings

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


def check_resumed(chosen, folder, monkeypatch):
    """Checks that a run goes on after a kill as if there had been none.

    A kill leaves the folder as it is at that moment. What is resumed is a copy
    of the folder within the last epoch, after a checkpoint in its middle; the
    run that is copied goes on to its end.

    Returns:
        The resumed `run.Job`, at its end.
    """
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
    done = len(job.state.history), job.steps_done
    assert done == (chosen.epochs - 1, middle)
    job.train()
    for key in ("train_perplexity", "validation_perplexity"):
        assert [entry[key] for entry in job.state.history] == [
            entry[key] for entry in whole.state.history
        ]
    for x, y in zip(variables(job), variables(whole), strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy(), err_msg=x.path)
    return job


def variables(job):
    """The variables of a job's model and of its optimizer."""
    return [*job.model.variables, *job.model.optimizer.variables]
