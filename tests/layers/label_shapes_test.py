"""Shapes of labels and of sample weights: what fits is taken, else named."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import heads_by_name
from tests.support.heads_by_name import BATCH, WIDTH
from tests.support.training import layer_step
from tf_hsm import metrics

X = heads_by_name.inputs("HierarchicalSoftmax").numpy()
Y = heads_by_name.labels("HierarchicalSoftmax")


def make_model(name="HierarchicalSoftmax", **options):
    head = heads_by_name.built(name, **options)
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile(
        keras.optimizers.SGD(0.1),
        head.loss,
        metrics=[metrics.Perplexity(head)],
        weighted_metrics=[metrics.TopKAccuracy(head)] * (name != "LabelTree"),
    )
    return model


@pytest.mark.parametrize("own", [None, "sgd"])
@pytest.mark.parametrize("name", ["HierarchicalSoftmax", "AdaptiveSoftmax"])
def test_labels_with_and_without_a_last_dimension(name, own):
    """In turn, when Keras traces for labels of any rank."""
    both, one = (make_model(name, optimizer=own) for _ in range(2))
    for labels in (Y, Y[:, None], Y, Y[:, None]):
        found = both.train_on_batch(X, labels)
        np.testing.assert_allclose(found, one.train_on_batch(X, Y), rtol=1e-5)
        found = both.evaluate(X, labels, verbose=0)
        np.testing.assert_allclose(
            found, one.evaluate(X, Y, verbose=0), rtol=1e-5
        )
    for wrong in (np.stack([Y, Y], 1), Y[None], Y[:, None, None]):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            both.train_on_batch(X, wrong)


def test_label_sets_after_labels_of_another_rank():
    model = make_model("LabelTree")
    model.train_on_batch(X, Y[:, None])
    with pytest.raises(
        (ValueError, tf.errors.InvalidArgumentError), match="shape"
    ):
        model.train_on_batch(X, Y)
    found = model.train_on_batch(X, heads_by_name.label_sets())
    assert np.isfinite(found).all()


@pytest.mark.parametrize("form", ["loss", "call", "step", "metric", "several"])
def test_sample_weights_of_another_length(form):
    """The error names the argument and the shapes."""
    own = "sgd" if form == "step" else None
    several = form == "several"
    head = heads_by_name.built(
        "HierarchicalSoftmax", optimizer=own, several_labels=several
    )
    weights = np.ones(BATCH - 1, "f4")
    calls = {
        "loss": lambda: head.loss(Y, head(X), weights),
        "call": lambda: head(X, Y, weights),
        "step": lambda: layer_step(head, X, Y, weights),
        "metric": lambda: metrics.Perplexity(head).update_state(Y, X, weights),
        "several": lambda: head(X, Y[:, None], weights),
    }
    text = r"sample_weight must broadcast to the shape \[12\], but .* \[11\]"
    before = head.get_weights()
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        calls[form]()
    with pytest.raises(ValueError, match=text):
        tf.function(calls[form], autograph=False)()
    for now, old in zip(head.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, old)


def test_a_mask_without_labels():
    """It is the mask of the output, which losses and metrics leave out."""
    head = heads_by_name.built("HierarchicalSoftmax")
    mask = np.arange(BATCH) % 3 == 0
    output = head(X, inputs_mask=mask)
    losses = head(X, Y).numpy()
    np.testing.assert_allclose(
        head.loss(Y, output), losses[mask].mean(), rtol=1e-5
    )
    perplexity = metrics.Perplexity(head)
    perplexity.update_state(Y, output)
    np.testing.assert_allclose(
        perplexity.result(), np.exp(losses[mask].mean()), rtol=1e-5
    )
    np.testing.assert_array_equal(output, X)
