"""Heads whose inputs have several labels, and weights of these in `fit`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.models import NUM_CLASSES, TREE, WIDTH, make_head
from tf_hsm.metrics import Perplexity

# Padded classes, and their probabilities, whose sum is below 1. The padding has
# a number too, which must not count; one input has no label.
RNG = np.random.default_rng(2)
X = RNG.normal(size=[11, WIDTH]).astype("f4")
CLASSES = RNG.permuted(np.tile(np.arange(NUM_CLASSES), [11, 1]), axis=1)[:, :4]
SIZES = RNG.integers(1, 5, size=11)
SIZES[3] = 0
CLASSES[np.arange(4) >= SIZES[:, np.newaxis]] = -1
PROBS = RNG.dirichlet(np.ones(5), 11)[:, :4].astype("f4")
COUNTED = CLASSES >= 0


@pytest.mark.parametrize("is_ragged", [False, True])
def test_perplexities(is_ragged):
    """Each by the weights that it is given, whoever made the losses."""
    data = (X, CLASSES, PROBS)
    if is_ragged:
        data = (X, *(tf.ragged.boolean_mask(v, COUNTED) for v in data[1:]))
    data = tf.data.Dataset.from_tensor_slices(data).batch(4)
    head = make_head(several_labels=True)
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile(
        keras.optimizers.SGD(0.5),
        head.loss,
        metrics=[Perplexity(head)],
        weighted_metrics=[Perplexity(head, name="weighted")],
    )
    losses = model.fit(data, verbose=0, epochs=3).history["loss"]
    assert losses[-1] < losses[0]
    found = model.evaluate(data, verbose=0, return_dict=True)
    its = head.log_prob(np.maximum(CLASSES, 0), X).numpy() * COUNTED
    means = its.sum(1) / np.maximum(SIZES, 1)
    weighted = (its * PROBS).sum() / PROBS[COUNTED].sum()
    np.testing.assert_allclose(
        [found["perplexity"], found["weighted"]],
        np.exp([-means.sum() / 10, -weighted]),
        rtol=1e-5,
    )


@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize(
    "make",
    [
        lambda: make_head(several_labels=True),
        lambda: tf_hsm.layers.LabelTree(TREE),
    ],
)
def test_weights_of_inputs_stay_such(make, most):
    """`[B]` and `[B, 1]`, however many labels there are."""
    head, weights = make(), np.linspace(0, 2, 11)
    totals = []
    for given in (weights, weights[:, np.newaxis]):
        head(X, CLASSES[:, :most], given)
        totals.append(float(head.losses[0]))
        totals.append(float(head.loss(CLASSES[:, :most], head(X), given)))
    np.testing.assert_allclose(totals, totals[0], rtol=1e-6)


def test_other_paddings_and_unsigned_labels():
    """Any negative number pads; in uint8, -1 would be the class 255."""
    head = tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.two_level(300), several_labels=True
    )
    losses = head(X, CLASSES).numpy()
    for labels in (
        np.where(COUNTED, CLASSES, -7),
        tf.cast(tf.ragged.boolean_mask(CLASSES, COUNTED), tf.uint8),
    ):
        np.testing.assert_allclose(head(X, labels), losses, rtol=1e-6)
