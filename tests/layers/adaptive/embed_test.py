"""The rows of an AdaptiveSoftmax as vectors of classes."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.adaptive_layers import SOME, make, ranks_of
from tests.support.in_place_models import (
    assert_goes_on,
    make_adaptive,
    own_variables,
)
from tests.support.models import STEPS, make_data, train
from tests.support.training import assert_near, assert_same
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import optimizers

CLASSES = np.array([[8, 3, 3], [39, 0, 20]])


def vectors_of(layer, classes):
    """Rows of the head, and rows of tails through the projection's transpose.

    TensorFlow differentiates.
    """
    rows = [layer.head_kernel.value[: layer.clusters.shortlist_size]]
    for tree, kernel, projection in zip(
        layer.clusters.tail_trees,
        layer.tail_kernels,
        layer.projections,
        strict=True,
    ):
        its = tf.gather(kernel.value, tree.class_rows)
        if projection is not None:
            its = tf.matmul(its, projection.value, transpose_b=True)
        rows.append(its)
    return tf.gather(tf.concat(rows, 0), ranks_of(layer)[classes])


@pytest.mark.parametrize("name", SOME)
def test_embed(name):
    """Gradients go to the variables that the losses train."""
    layer = make(name)
    drawn = np.array([[8, 3, 3], [0, 8, 1]], "i4") % layer.num_classes
    assert_near(layer.embed(drawn), vectors_of(layer, drawn), 1e-6)
    assert layer.embed(drawn[:0]).shape == [0, 3, 12]
    classes = np.arange(layer.num_classes)
    variables = [v.value for v in layer.weights if "bias" not in v.path]
    slopes = []
    for embed in (
        functools.partial(layer, embed=True),
        functools.partial(vectors_of, layer),
    ):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(embed(classes) ** 2)
        slopes.append(
            map(tf.convert_to_tensor, tape.gradient(total, variables))
        )
    for found, wanted in zip(*slopes, strict=True):
        assert_near(found, wanted, 1e-4)


def loss_and_gradients(layer, body, tokens, labels):
    """Gradients of the losses alone, and gradients of the vectors alone."""
    variables = [v.value for v in layer.trainable_variables]
    with tf.GradientTape(persistent=True) as outer:
        vectors = layer.embed(tokens)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        total = tf.reduce_mean(layer(body(vectors), labels))
    sources = [vectors, body.kernel.value, *variables]
    upstream, of_body, *of_losses = tape.gradient(total, sources)
    of_vectors = outer.gradient(vectors, variables, output_gradients=upstream)
    return total, of_body, of_losses, of_vectors


@pytest.mark.parametrize(
    "rule, dtype, cutoffs",
    [
        *((rule, "float32", [5, 17]) for rule in OPTIMIZERS),
        ("lazy_adam", "float64", [5, 17]),
        ("lazy_adam", "float32", []),
    ],
)
def test_both_steps(rule, dtype, cutoffs):
    """By hand: a step of the losses, then one of the vectors, at one rate."""
    options = {"cutoffs": cutoffs, "width": 12, "dtype": dtype}
    own = make("permuted", optimizer=OPTIMIZERS[rule](), **options)
    plain = make("permuted", **options)
    plain.load_own_variables(own_variables(own))
    optimizer = OPTIMIZERS[rule]()
    optimizer.build(plain.trainable_variables)
    body = keras.layers.Dense(12, use_bias=False, dtype=dtype)
    body.build([None, 12])
    rng = np.random.default_rng(0)

    @tf.function
    def step(tokens, labels):
        with tf.GradientTape() as tape:
            own(body(own.embed(tokens)), labels)
            total = own.losses[0]
        variables = [v.value for v in own.trainable_variables]
        sources = [body.kernel.value, *variables]
        return total, tape.gradient(total, sources)

    for number in range(3):
        tokens, labels = rng.integers(40, size=[2, 4, 7])
        total, of_body, of_losses, of_vectors = loss_and_gradients(
            plain, body, tokens, labels
        )
        loss, (body_gradient, *of_projections) = step(tokens, labels)
        assert_near([loss, body_gradient], [total, of_body], 1e-5)
        variables = plain.trainable_variables
        slopes = [*zip(variables, of_losses, of_vectors, strict=True)]
        both = [
            tf.convert_to_tensor(a) + b
            for v, a, b in slopes
            if "projection" in v.name
        ]
        assert_near(of_projections, both, 1e-5)
        rows = [each for each in slopes if "projection" not in each[0].name]
        optimizer.apply([a for _, a, _ in rows], [v for v, _, _ in rows])
        optimizer.iterations.assign(number)
        embedded = [(b, v) for v, _, b in rows if b is not None]
        optimizer.apply(*map(list, zip(*embedded, strict=True)))
        assert_near(own_variables(own), own_variables(plain), 1e-5)
        for mine, its in zip(
            own.row_variables(), plain.row_variables(), strict=True
        ):
            assert_near(own.optimizer.slots(mine), optimizer.slots(its), 1e-5)
        assert int(own.optimizer.iterations) == number + 1


@pytest.mark.parametrize("own", [True, False])
def test_file_of_a_tied_model(own, tmp_path):
    """It learns; and what comes back from a file goes on to the same bits.

    The model predicts tokens from tokens, through one matrix of vectors.
    """
    rule = OPTIMIZERS["lazy_adam"]
    head = make_adaptive(width=8, optimizer=rule() if own else None)
    tokens = keras.Input([STEPS], dtype="int32")
    hidden = keras.layers.Dense(8, "tanh")(head(tokens, embed=True))
    model = keras.Model(tokens, head(hidden))
    model.compile(rule(), loss=head.loss)
    tokens, labels = make_data()
    losses = train(model, tokens, labels, epochs=4)
    assert losses[-1] < 0.95 * losses[0]
    model.save(tmp_path / "tied.keras")
    loaded = keras.models.load_model(tmp_path / "tied.keras")
    assert_goes_on(loaded, model, {"x": tokens, "y": labels})


def test_a_function_within_a_tape():
    """The step is in the backward function that TensorFlow makes of it."""
    results = []
    for wrap in (lambda f: f, tf.function):
        layer = make("narrow", optimizer=optimizers.SGD(0.5))
        embed = wrap(functools.partial(layer, embed=True))
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(embed(CLASSES) ** 2)
        tape.gradient(total, layer.in_place.anchor.value)
        results.append(own_variables(layer))
    assert_same(*results)
    untouched = own_variables(make("narrow"))
    assert all(np.any(results[0][i] != untouched[i]) for i in "0369")


@pytest.mark.parametrize("stochastic_rounding", [False, True])
def test_bfloat16(stochastic_rounding):
    layer = make(
        "narrow",
        dtype="bfloat16",
        optimizer=optimizers.SGD(1.0),
        stochastic_rounding=stochastic_rounding,
    )
    before = own_variables(layer)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(np.array([2, 2]), embed=True))
    tape.gradient(total, layer.in_place.anchor.value)
    moved = own_variables(layer)["0"].astype(float) - before["0"].astype(float)
    np.testing.assert_allclose(moved[2], -2, atol=0.02)
    assert not np.delete(moved, 2, 0).any()
