"""Label smoothing of a layer: in its losses, and in no perplexity."""

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support import models

SHARE = 0.25
# So large that labels are more or less probable.
LARGE = {
    "kernel_initializer": "random_normal",
    "bias_initializer": keras.initializers.RandomNormal(stddev=3.0, seed=1),
}


def model_of(rate, optimizer):
    """A compiled model whose head has an optimizer, or None."""
    head = models.make_head(label_smoothing=SHARE, optimizer=optimizer, **LARGE)
    model = models.sequential(*models.hidden_layers(), head)
    metrics = [tf_hsm.metrics.Perplexity(head)]
    model.compile(keras.optimizers.SGD(rate), head.loss, metrics=metrics)
    return model


def mean_losses(model, x, y):
    """The mean loss with smoothing and without, as the op has them."""
    head, hidden = models.head_of(model), models.hidden_model(model)(x)
    counted = np.asarray(x) != 0
    for share in (SHARE, 0.0):
        losses = models.op_losses(head, y, hidden, label_smoothing=share)
        yield losses[counted].mean()


@pytest.mark.parametrize("in_place", [False, True])
def test_in_compile(in_place):
    """In `fit` and in `evaluate` alike."""
    x, y = models.make_data()
    model = model_of(0.0, tf_hsm.optimizers.SGD(0.0) if in_place else None)
    smoothed, plain = mean_losses(model, x, y)
    assert abs(smoothed - plain) > 0.05
    history = model.fit(x, y, batch_size=len(x), verbose=0).history
    found = model.evaluate(x, y, verbose=0, return_dict=True)
    for logs in (history, found):
        np.testing.assert_allclose(logs["loss"], smoothed, rtol=1e-5)
        np.testing.assert_allclose(logs["perplexity"], np.exp(plain), rtol=1e-5)


def test_as_an_endpoint():
    x, y = models.make_data()
    model = models.endpoint_form(
        keras.optimizers.SGD(0.0),
        label_smoothing=SHARE,
        **LARGE,
    )
    history = model.fit([x, y], batch_size=len(x), verbose=0).history
    head = models.head_of(model)
    hidden = keras.Model(model.inputs[0], head.input[0])(x)
    counted = np.asarray(x) != 0
    smoothed, plain = (
        models.op_losses(head, y, hidden, label_smoothing=share)[counted].mean()
        for share in (SHARE, 0.0)
    )
    assert abs(smoothed - plain) > 0.05
    np.testing.assert_allclose(history["loss"], smoothed, rtol=1e-5)
    np.testing.assert_allclose(
        model.evaluate([x, y], batch_size=len(x), verbose=0),
        smoothed,
        rtol=1e-5,
    )


def test_a_step_in_place_minimizes_it():
    x, y = models.make_data()
    steps = []
    for optimizer in (None, tf_hsm.optimizers.SGD(1.0)):
        keras.utils.set_random_seed(0)
        model = model_of(1.0, optimizer)
        model.run_eagerly = optimizer is None
        model.fit(x, y, batch_size=len(x), verbose=0)
        steps.append([v.numpy() for v in models.head_of(model).row_variables()])
    for one, other in zip(*steps, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_it_is_saved(tmp_path):
    model = models.compile_form(label_smoothing=SHARE)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert models.head_of(loaded).label_smoothing == SHARE


def test_refusals():
    with pytest.raises(ValueError, match=r"label_smoothing must be in \[0, 1"):
        models.make_head(label_smoothing=2)


def test_several_labels():
    head = models.make_head(label_smoothing=SHARE, several_labels=True)
    hidden = np.random.default_rng(0).normal(size=(4, models.WIDTH))
    hidden = hidden.astype(np.float32)
    labels = np.array([[1, 2], [3, -1], [4, 5], [6, 7]])
    smoothed = head(hidden, labels).numpy()
    plain = head._find_losses(labels, hidden, plain=True).losses.numpy()
    first = tf_hsm.hierarchical_softmax_loss(
        head.kernel,
        head.bias,
        [3],
        hidden[1:2],
        models.TREE,
        label_smoothing=SHARE,
    )
    np.testing.assert_allclose(smoothed[1], first[0], rtol=1e-5)
    assert abs(smoothed - plain).min() > 0
