"""The bodies of the language model: recurrent layers and Transformer blocks."""

import math

import numpy as np
import pytest

from examples.language_model import (
    model,
    reading,
    recurrent,
    transformer,
)
from tests.support import language_models
from tests.support.language_models import check_resumed, small_settings

text, loaded = language_models.text, language_models.loaded


def build(loaded, **changes):
    """A model with random weights."""
    built = language_models.build(loaded, **changes)
    rng = np.random.default_rng(0)
    for weight in built.trainable_weights:
        weight.assign(rng.normal(scale=0.3, size=weight.shape))
    return built


def windows(loaded, number):
    """So many windows of tokens, `[5, 7]` each."""
    tokens = np.resize(loaded.train, (number, 5, 7))
    return np.random.default_rng(1).permuted(tokens, axis=2)


def test_each_layer_has_its_width(loaded):
    changes = {"units": "20,12", "embedding": 9, "projection": 6}
    built = build(loaded, cell="gru", **changes)
    shapes = {
        layer.name: [tuple(v.shape) for v in layer.trainable_weights]
        for layer in built.layers
    }
    assert shapes["embedding"] == [(len(loaded.words), 9)]
    assert shapes["gru_0"][:2] == [(9, 60), (20, 60)]
    assert shapes["gru_1"][:2] == [(20, 36), (12, 36)]
    assert shapes["projection"] == [(12, 6)]
    assert built.get_layer("head").kernel.shape[1] == 6


def test_states_last_from_window_to_window(loaded):
    body = model.body(build(loaded, cell="rnn"))
    first, second = windows(loaded, 2)
    after = np.array([body(window) for window in (first, second)])[1]
    recurrent.reset_states(body)
    alone = np.array(body(second))
    assert not np.allclose(after, alone)


def test_a_window_is_read_as_its_tokens_one_by_one(loaded):
    for changes in (
        {"cell": "gru", "units": "24,24"},
        {"cell": "rnn"},
        {"body": "transformer", "units": "24,24"},
        {"body": "transformer", "embedding": 10, "projection": 6},
    ):
        body = model.body(build(loaded, **changes))
        (window,) = windows(loaded, 1)
        whole = np.array(body(window))
        step, state = reading.reader(body, 5)
        for t in range(7):
            hidden, state = step(window[:, t], state)
            np.testing.assert_allclose(hidden, whole[:, t], atol=1e-5)


def test_a_transformer_sees_the_last_window(loaded):
    body = model.body(build(loaded, body="transformer"))
    tokens = np.concatenate(windows(loaded, 2), axis=1)
    step, state = reading.reader(body, 5)
    for t in range(tokens.shape[1]):
        hidden, state = step(tokens[:, t], state)
    np.testing.assert_allclose(hidden, body(tokens[:, 7:])[:, -1], atol=1e-5)
    # Its tokens in another order are another text.
    other = np.array(body(tokens[:, [8, 7, *range(9, 14)]]))[:, -1]
    assert np.abs(hidden - other).max() > 1e-3


def test_positions_are_sines_and_cosines():
    inputs = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
    expected = inputs * np.sqrt(6)
    for t in range(5):
        for i in range(3):
            angle = t / 10_000 ** (2 * i / 6)
            expected[:, t, i] += np.sin(angle)
            expected[:, t, 3 + i] += np.cos(angle)
    added = transformer.Positions()(inputs)
    np.testing.assert_allclose(added, expected, rtol=1e-5, atol=1e-6)


def softmax(x):
    """Over the last axis."""
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def test_a_block_is_that_of_the_formulas(loaded):
    """In NumPy: pre-norm, causal attention, a GELU of four times the width."""
    built = build(loaded, body="transformer", units=8, attention_heads=2)

    def weights(name):
        return [v.numpy() for v in built.get_layer(name).trainable_weights]

    def norm(x, name):
        gamma, beta = weights(name)
        x = x - x.mean(axis=-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * gamma + beta

    (window,) = windows(loaded, 1)
    x = np.array(transformer.Positions()(built.get_layer("embedding")(window)))
    y = norm(x, "attention_0_norm")
    *inputs, output, output_bias = weights("attention_0")
    query, key, value = (
        np.einsum("btd,dhk->bhtk", y, kernel) + bias[:, np.newaxis]
        for kernel, bias in zip(inputs[::2], inputs[1::2], strict=True)
    )
    scores = query @ key.swapaxes(2, 3) / np.sqrt(4)
    scores[..., np.triu(np.ones((7, 7), bool), 1)] = -np.inf
    attended = np.einsum("bhtk,hkd->btd", softmax(scores) @ value, output)
    x = x + attended + output_bias
    (kernel, bias), (kernel_2, bias_2) = (
        weights(name) for name in ("feed_forward_0_inner", "feed_forward_0")
    )
    assert kernel.shape == (8, 32)
    z = norm(x, "feed_forward_0_norm") @ kernel + bias
    z = z * (1 + np.vectorize(math.erf)(z / np.sqrt(2))) / 2
    x = norm(x + z @ kernel_2 + bias_2, "norm")
    np.testing.assert_allclose(
        model.body(built)(window), x, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("options", [{"head": "adaptive"}, {"tree": "flat"}])
def test_a_transformer_goes_on_after_a_kill_and_writes(
    options, text, tmp_path, monkeypatch, capsys
):
    """Its embedding is the head's, and has another width than the blocks."""
    chosen = small_settings(
        text,
        body="transformer",
        projection=20,
        dropout=0.2,
        tied=True,
        epochs=1,
        **options,
    )
    job = check_resumed(chosen, tmp_path, monkeypatch)
    last = job.state.history[-1]
    assert last["validation_perplexity"] < last["unigram_perplexity"] / 2
    capsys.readouterr()
    assert job.finish() == pytest.approx(job.loss("test"), abs=1e-5)
    shown = capsys.readouterr().out
    assert shown.split("A text drawn from the model")[1].count("noun") > 1
