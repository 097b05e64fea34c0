"""Runs of the language model example that take seconds."""

import numpy as np
import pytest

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
    return settings.Settings(**{"corpus": text, **_SMALL, **changes})


def check_resumed(chosen, folder, monkeypatch):
    """Checks that a run that was interrupted ends as one that was not.

    It is interrupted within an epoch and after the first one.

    Returns:
        The `run.Job` that nothing interrupted.
    """
    whole = run.prepare(chosen, folder / "whole")
    whole.train()
    save, steps = checkpoint.save, []

    def save_or_stop(*arguments):
        # Within the first epoch, at its end, within the second.
        steps.append(0)
        if len(steps) in (2, 4):
            raise InterruptedError
        save(*arguments)

    every = len(whole.train_windows[0]) // 2
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", save_or_stop)
        for _ in range(2):
            job = run.prepare(chosen, folder / "resumed", resume=True)
            with pytest.raises(InterruptedError):
                job.train(save_every=every)
    job = run.prepare(chosen, folder / "resumed", resume=True)
    assert job.steps_done
    job.train()
    check_same_state(job, whole)
    return whole


def check_same_state(a, b):
    """Checks that two `run.Job` have the same weights, slots and history."""
    for key in ("train_perplexity", "held_out_perplexity"):
        assert [entry[key] for entry in a.state.history] == [
            entry[key] for entry in b.state.history
        ]
    for x, y in zip(_variables(a.model), _variables(b.model), strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy(), err_msg=x.path)


def _variables(model):
    own = getattr(model.get_layer("head"), "optimizer", None)
    own = own.variables if own else []
    return [*model.variables, *model.optimizer.variables, *own]
