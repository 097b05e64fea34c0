"""What EmbeddingSoftmax refuses, and before anything moved; its types."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import embedding_softmaxes as softmaxes
from tests.support.in_place_models import fit
from tests.support.training import assert_near, assert_same, layer_step
from tf_hsm import optimizers

LABELS = np.array([1, 2])
INPUTS = {
    "an id too large": (
        np.array([[1, 2], [softmaxes.COUNT, 3]]),
        tf.errors.InvalidArgumentError,
        f"= {softmaxes.COUNT}|ids must be in .0, {softmaxes.COUNT}",
    ),
    "a negative id": (
        tf.ragged.constant([[1, 2], [-2]], dtype=tf.int64),
        tf.errors.InvalidArgumentError,
        f"= -2|ids must be in .0, {softmaxes.COUNT}",
    ),
    "floats": (
        np.array([[1.0, 2], [3, 4]]),
        TypeError,
        "ids must be integers, but are float",
    ),
    "too many dimensions": (
        np.zeros([2, 3, 4], np.int64),
        ValueError,
        r"ids, of shape \(2, 3, 4\), must be \[batch\]",
    ),
    "one weight per bag": (
        [np.array([[1, 2], [3, 4]]), np.ones(2, np.float32)],
        tf.errors.InvalidArgumentError,
        "weights must have the shape of ids",
    ),
    "weights of other bags": (
        [
            tf.ragged.constant([[1, 2], [3]]),
            tf.ragged.constant([[1.0], [2.0, 3.0]]),
        ],
        tf.errors.InvalidArgumentError,
        "weights must have the shape of ids",
    ),
    "three tensors": (
        [np.array([1, 2]), np.ones(2), np.ones(2)],
        ValueError,
        "but are a list of 3",
    ),
    "labels of other bags": (
        np.array([[1, 2], [3, 4], [5, 6]]),
        ValueError,
        "labels, of shape",
    ),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("what", INPUTS)
def test_inputs(what, training):
    inputs, error, match = INPUTS[what]
    layer = softmaxes.make_layer(optimizer="adagrad")
    layer.build()
    before = softmaxes.state(layer)
    with pytest.raises(error, match=match):
        if training:
            layer_step(layer, inputs, LABELS)
        else:
            layer(inputs, LABELS)
    assert_same(softmaxes.state(layer), before)


def test_answers_check_ids():
    layer = softmaxes.make_layer(optimizer="sgd")
    with pytest.raises(ValueError, match="has no weights yet"):
        layer.top_k(np.array([1]), 2)
    layer.build()
    for ask in (layer.embed, layer.log_probs, lambda x: layer.top_k(x, 2)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="ids must be"):
            ask(np.array([1, softmaxes.COUNT]))
    with pytest.raises(TypeError, match=r'keras.Input.*dtype="int64"'):
        layer(keras.Input([]))


def test_a_mask_of_ids_in_bags():
    layer = softmaxes.make_layer()
    ids, mask = np.array([[1, 2], [3, 4]]), np.ones([2, 2], bool)
    with pytest.raises(ValueError, match="padding_id leaves out some"):
        layer(ids, LABELS, inputs_mask=mask)
    ids = tf.constant(ids)
    ids._keras_mask = tf.constant(mask)
    with pytest.raises(ValueError, match="padding_id leaves out some"):
        layer(ids)


def test_a_list_of_bags():
    """Two arrays are ids and weights: integers would be taken for weights."""
    layer = softmaxes.make_layer()
    layer(np.array([1]))
    with pytest.raises(TypeError, match="weights must be floats, but are int"):
        layer.embed([np.array([1, 2]), np.array([3, 4])])
    ids = np.array([1, 2, 3])
    np.testing.assert_array_equal(layer.embed(list(ids)), layer.embed(ids))


def test_gradients():
    """With an optimizer of its own they move rows, or are refused."""
    layer = softmaxes.make_layer(optimizer=optimizers.SGD(0.5))
    layer.build()
    ids = softmaxes.make_inputs("ragged")
    with tf.GradientTape() as tape:
        tape.watch(layer.embeddings.value)
        found = layer.log_probs(ids)
    with pytest.raises(LookupError, match="gradient of log_probs"):
        tape.gradient(found, layer.embeddings.value)
    before = softmaxes.state(layer)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer.embed(np.array([3, 3, 7])))
    assert tape.gradient(total, layer.in_place.anchor.value) == 0
    table, *others = softmaxes.state(layer)
    before[0][[3, 7]] -= [[1.0], [0.5]]
    np.testing.assert_allclose(table, before[0], rtol=1e-6)
    assert_same(others, before[1:])
    with tf.GradientTape() as tape:
        rows = [v.value for v in layer.row_variables()]
        tape.watch(rows)
        losses = layer(ids, softmaxes.make_labels())
    anchor = layer.in_place.anchor.value
    assert tape.gradient(losses, [*rows, anchor]) == [None, None, None, 0]
    plain = softmaxes.make_layer()
    plain.build()
    with tf.GradientTape() as tape:
        found = plain.embed(ids)
    gradient = tape.gradient(found, plain.embeddings.value)
    assert gradient.shape == (softmaxes.COUNT, softmaxes.WIDTH)


@functools.cache
def float32_run():
    """Losses and weights of a layer without mixed precision."""
    layer = softmaxes.make_layer(optimizer="sgd")
    data = {"x": softmaxes.make_inputs("padded"), "y": softmaxes.make_labels()}
    return fit(softmaxes.make_model(layer, "padded"), data), softmaxes.weights(
        layer
    )


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(policy):
    """The vectors stay as wide as the table; the loss may be scaled."""
    data = {"x": softmaxes.make_inputs("padded"), "y": softmaxes.make_labels()}
    keras.config.set_dtype_policy(policy)
    try:
        layer = softmaxes.make_layer(optimizer="sgd")
        model = softmaxes.make_model(layer, "padded")
        losses = fit(model, data)
    finally:
        keras.config.set_dtype_policy("float32")
    assert_near([losses, softmaxes.weights(layer)], float32_run(), 1e-6)
    assert layer.embed(data["x"]).dtype == policy.removeprefix("mixed_")


def as_floats(layer):
    return [np.asarray(v, np.float32) for v in softmaxes.weights(layer)]


@pytest.mark.parametrize("kind", ["ids", "ragged"])
def test_rounding(kind):
    """At random, as the seed says; or to the nearest."""

    def stepped(start=None, **options):
        layer = softmaxes.make_layer(optimizer=optimizers.SGD(0.5), **options)
        layer.build()
        if start is not None:
            variables = [layer.embeddings, layer.kernel, layer.bias]
            for variable, value in zip(variables, start, strict=True):
                variable.assign(value)
        start = as_floats(layer)
        layer_step(layer, softmaxes.make_inputs(kind), softmaxes.make_labels())
        return start, softmaxes.weights(layer)

    start, nearest = stepped(dtype="bfloat16", stochastic_rounding=False)
    _, exact = stepped(start)
    assert_same(nearest, [v.astype("bfloat16") for v in exact])
    runs = [
        stepped(dtype="bfloat16", stochastic_rounding=rounding, seed=seed)[1]
        for rounding, seed in ((None, 3), (True, 3), (None, 4))
    ]
    assert_same(runs[0], runs[1])
    for others in (nearest, runs[2]):
        assert all(map(np.any, map(np.not_equal, runs[0], others)))
    # To one of the two neighbours.
    for found, wanted in zip(runs[0], exact, strict=True):
        error = abs(found.astype(np.float32) - wanted)
        assert (error <= 2.0**-7 * abs(wanted)).all()


def test_weights_of_bags_that_are_learned():
    """In place as by the model's optimizer."""
    ids = keras.Input([3], dtype="int64")
    x, y = np.arange(12).reshape(4, 3) % 9, np.arange(4)
    runs = []
    for own in ("sgd", None):
        keras.utils.set_random_seed(2)
        embedding = keras.layers.Embedding(9, 1)
        learned = keras.layers.Reshape([3])(embedding(ids))
        head = tf_hsm.layers.EmbeddingSoftmax(
            tf_hsm.Tree.two_level(9),
            num_embeddings=9,
            width=4,
            kernel_initializer=keras.initializers.RandomNormal(seed=1),
            optimizer=own,
        )
        model = keras.Model(ids, head([ids, learned]))
        model.compile(optimizers.SGD(0.01), head.loss)
        before = embedding.embeddings.numpy()
        losses = fit(model, {"x": x, "y": y})
        assert (embedding.embeddings.numpy() != before).any()
        variables = [*head.row_variables(), embedding.embeddings]
        runs.append([losses, *(v.numpy() for v in variables)])
    assert_near(*runs, 1e-6)
