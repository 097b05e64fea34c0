"""How the language model is optimized: rules, rates, clipping, penalties."""

import dataclasses
import functools

import numpy as np
import pytest

import tf_hsm
from examples.language_model import (
    batches,
    head_share,
    model,
    optimization,
    settings,
)
from tests.support import language_models
from tests.support.language_models import check_resumed, small_settings
from tests.support.training import assert_same

text, loaded = language_models.text, language_models.loaded


# Without dropout, which would hide what else changes the numbers.
build = functools.partial(language_models.build, cell="rnn", dropout=0.0)


def one_window(loaded):
    """The first tokens and labels, as a dataset and as inputs of a model."""
    windows = batches.Windows(loaded.train, 5, 7, "text")
    tokens, labels = windows[0]
    return windows.dataset(range(1)), {"tokens": tokens, "labels": labels}


def step(built, loaded, eagerly=False):
    """One training step; returns what was added to each weight, and metrics.

    What is only compared with is not worth a graph.
    """
    built.run_eagerly = eagerly
    before = [v.numpy() for v in weights(built)]
    logs = built.fit(one_window(loaded)[0], shuffle=False, verbose=0).history
    changes = {
        v.path: v.numpy() - old
        for v, old in zip(weights(built), before, strict=True)
    }
    return changes, {name: value[0] for name, value in logs.items()}


def weights(built):
    """Those of the body and of the head, whatever updates them."""
    seeds = [v for v in built.weights if "seed" in v.path]
    return [v for v in built.weights if all(v is not s for s in seeds)]


@pytest.mark.parametrize("optimizer", settings.LEARNING_RATES)
def test_the_rule_and_its_options(loaded, optimizer):
    built = build(loaded, optimizer=optimizer, learning_rate=None, clipnorm=2.0)
    names = {"sgd": "SGD", "lazy_adam": "LazyAdam", "adagrad": "Adagrad"}
    kind = getattr(tf_hsm.optimizers, names.get(optimizer, "RowwiseAdagrad"))
    assert type(built.optimizer) is kind
    assert built.optimizer.global_clipnorm == 2
    rate = settings.LEARNING_RATES[optimizer]
    assert float(built.optimizer.learning_rate) == pytest.approx(rate)
    built.optimizer.build(built.trainable_variables)
    if "adagrad" in optimizer:
        for variable in built.trainable_variables:
            (slot,) = built.optimizer.slots(variable)
            np.testing.assert_allclose(slot, 1e-6)


SGD = {"optimizer": "sgd", "learning_rate": 1.0, "decay": "none"}
ADAPTIVE = {"head": "adaptive", "cutoffs": "10,30"}


def test_clipping_is_by_the_norm_of_all_gradients(loaded):
    """With a rate of 1, SGD adds minus the gradient."""
    norms = []
    for clipnorm in (0.0, 0.1):
        built = build(loaded, clipnorm=clipnorm, **SGD)
        changes, _ = step(built, loaded, eagerly=not clipnorm)
        norms.append(np.sqrt(sum((c**2).sum() for c in changes.values())))
    assert norms[0] > 0.2
    assert norms[1] == pytest.approx(0.1, rel=1e-4)


@pytest.mark.parametrize("head", settings.HEADS)
def test_penalties_are_those_of_matrices_and_touched_rows(loaded, head):
    l2 = 0.01
    plain, penalized = (
        build(loaded, l2=value, head=head, projection=10, **SGD)
        for value in (0.0, l2)
    )
    values = {v.path: v.numpy() for v in weights(plain)}
    (expected, logs), (changes, penalized_logs) = (
        step(built, loaded, built is plain) for built in (plain, penalized)
    )
    for path, value in values.items():
        more = changes[path] - expected[path]
        if path.startswith("head"):
            touched = expected[path].any(axis=-1, keepdims=value.ndim > 1)
            is_penalized = touched & ("kernel" in path)
        else:
            is_penalized = value.ndim > 1 and "embedding" not in path
        np.testing.assert_allclose(
            more, -2 * l2 * value * is_penalized, atol=1e-6, err_msg=path
        )
    # The loss of the text is known without them, to a saved model too.
    assert penalized_logs["nats"] == pytest.approx(logs["loss"], rel=1e-6)
    assert penalized_logs["loss"] > penalized_logs["nats"] + 0.1
    assert model.text_loss(penalized_logs) == penalized_logs["nats"]
    assert model.text_loss(logs) == logs["loss"]


def test_the_rate_falls_as_the_decay_says():
    chosen = small_settings("", learning_rate=0.8, epochs=5)
    num_steps = 50
    rate = optimization.rate(
        dataclasses.replace(chosen, decay="cosine"), num_steps
    )
    expected = 0.8 * (0.05 + 0.95 * (1 + np.cos(np.pi * 0.4)) / 2)
    assert float(rate(20)) == pytest.approx(expected)
    for decay in ("none", "plateau"):
        constant = dataclasses.replace(chosen, decay=decay)
        assert optimization.rate(constant, num_steps) == 0.8


def test_a_plateau_halves_the_rate(loaded):
    def history(*perplexities):
        return [{"validation_perplexity": p} for p in perplexities]

    for perplexities, expected in (
        ((), 0.8),
        ((100.0,), 0.8),
        ((100.0, 98.9), 0.8),  # 1.1% less
        ((100.0, 99.1), 0.4),
        ((100.0, 120.0, 90.0), 0.4),
        ((100.0, 100.0, 100.0), 0.2),
    ):
        rate = optimization.plateau_rate(0.8, history(*perplexities))
        assert rate == expected
    chosen = small_settings("", decay="plateau", in_place=True)
    built = build(loaded, decay="plateau", in_place=True)
    optimization.begin_epoch(built, chosen, history(9.0, 9.0))
    for optimizer in (built.optimizer, built.get_layer("head").optimizer):
        assert float(optimizer.learning_rate) == pytest.approx(0.01)


@pytest.mark.parametrize(
    "options",
    (
        {"optimizer": "adagrad", "learning_rate": 0.1},
        {**SGD, **ADAPTIVE, "tied": True},
    ),
)
def test_a_step_in_place_is_the_same_step(loaded, options):
    plain, in_place = (
        build(loaded, in_place=value, **options) for value in (False, True)
    )
    for _ in range(2):
        (expected, _), (changes, _) = (
            step(built, loaded, built is plain) for built in (plain, in_place)
        )
        for path, change in expected.items():
            np.testing.assert_allclose(
                changes[path], change, rtol=1e-3, atol=1e-5, err_msg=path
            )
    head = in_place.get_layer("head")
    assert all("projection" in v.path for v in head.trainable_variables)
    # To time such a head alone would move it.
    before = [v.numpy() for v in head.variables]
    _, inputs = one_window(loaded)
    share = head_share.head_share(
        in_place, inputs["tokens"], inputs["labels"], 1e3
    )
    assert share is None
    assert_same([v.numpy() for v in head.variables], before)


@pytest.mark.parametrize(
    "changes",
    (
        {
            "optimizer": "adagrad",
            "learning_rate": 0.1,
            "decay": "plateau",
            "epochs": 3,
            "clipnorm": 1.0,
            "l2": 1e-5,
            "units": 20,
            "embedding": 10,
            "projection": 8,
        },
        {
            "optimizer": "rowwise_adagrad",
            "learning_rate": 0.1,
            "decay": "none",
            "in_place": True,
            "cell": "gru",
        },
    ),
)
def test_it_goes_on_after_a_kill(text, tmp_path, monkeypatch, changes):
    # No epoch is so much better than the one before.
    monkeypatch.setattr(optimization, "PLATEAU", 0.9)
    chosen = small_settings(text, dropout=0.2, **changes)
    job = check_resumed(chosen, tmp_path, monkeypatch)
    last = job.state.history[-1]
    assert last["validation_perplexity"] < last["unigram_perplexity"] / 2
    rate = float(job.model.optimizer.learning_rate)
    assert rate == pytest.approx(0.05 if chosen.decay == "plateau" else 0.1)
    loss = job.finish()
    assert 0 < loss < np.log(last["unigram_perplexity"] / 2)
    assert job.loss("test") == pytest.approx(loss, abs=1e-5)
