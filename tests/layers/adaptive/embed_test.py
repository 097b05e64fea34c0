"""The rows of an AdaptiveSoftmax as vectors of classes, in float64 NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.adaptive_layers import (
    SOME,
    arrays_of,
    assert_close,
    make,
    ranks_of,
)
from tests.support.models import (
    NUM_CLASSES,
    STEPS,
    assert_same_weights,
    make_data,
    train,
)
from tf_hsm.layers import AdaptiveSoftmax


@pytest.mark.parametrize("name", SOME)
def test_embed(name):
    """Rows of the head, and rows of tails through the projection's transpose.

    Gradients go to the variables that the losses train.
    """
    layer = make(name)
    parts, n = arrays_of(layer), layer.head_kernel.shape[0] - len(layer.cutoffs)
    ranks, vectors = ranks_of(layer), []
    for c in range(layer.num_classes):
        j = np.searchsorted(layer.cutoffs, ranks[c], side="right")
        tree, p, kernel, _ = parts[j]
        row = ranks[c] - (layer.cutoffs[j - 1] if j else 0)
        vectors.append(kernel[tree.class_rows[row]] @ p.T)
    vectors = np.array(vectors)
    classes = np.arange(layer.num_classes)
    assert n == (layer.cutoffs or [layer.num_classes])[0]
    assert_close(layer(classes, embed=True), vectors, 1e-6)
    drawn = np.array([[8, 3, 3], [0, 8, 1]], "i4") % layer.num_classes
    assert_close(layer.embed(drawn), vectors[drawn], 1e-6)
    assert layer.embed(drawn[:0]).shape == [0, 3, 12]
    upstream = np.random.default_rng(0).normal(size=vectors.shape)
    variables = [v.value for v in layer.weights if "bias" not in v.path]
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(upstream.astype("f4") * layer.embed(classes))
    gradients = tape.gradient(total, variables)
    for variable, gradient in zip(variables, gradients, strict=True):
        # It is linear in each variable.
        ones = tf.reduce_sum(tf.convert_to_tensor(gradient) * variable)
        own = np.isin(ranks, np.arange(n))
        if variable is not layer.head_kernel.value:
            j = next(
                j
                for j in range(len(layer.cutoffs))
                if any(
                    v is not None and v.value is variable
                    for v in (layer.projections[j], layer.tail_kernels[j])
                )
            )
            own = np.searchsorted(layer.cutoffs, ranks, side="right") == j + 1
        assert_close(ones, (upstream * vectors)[own].sum(), 1e-4)


def test_bad_classes():
    layer = make()
    error = tf.errors.InvalidArgumentError
    for classes in ([[0, 40]], [[0, -1]]):
        message = rf"classes must be in \[0, 40\)(.|\n)*{classes[0][1]}"
        with pytest.raises(error, match=message):
            layer(np.array(classes), embed=True)
    with pytest.raises(TypeError, match="classes must be integers"):
        layer.embed([0.5])


def tied_model(optimizer):
    """Predicts tokens from tokens, through one matrix of vectors."""
    counts = np.random.default_rng(0).integers(9, size=NUM_CLASSES)
    head = AdaptiveSoftmax(
        NUM_CLASSES,
        cutoffs=[4, 11],
        div_value=2,
        counts=counts,
        width=8,
        name="words",
    )
    tokens = keras.Input([STEPS], dtype="int32")
    hidden = keras.layers.Dense(8, "tanh")(head(tokens, embed=True))
    model = keras.Model(tokens, head(hidden))
    model.compile(optimizer, loss=head.loss)
    return model


def test_file_of_a_tied_model(tmp_path):
    """It learns, and what comes back from a file goes on in the same way."""
    tokens, labels = make_data()
    model = tied_model(keras.optimizers.Adam(0.03))
    assert len(model.weights) == 10
    losses = train(model, tokens, labels, epochs=8)
    assert losses[-1] < 0.8 * losses[0]
    model.save(tmp_path / "tied.keras")
    loaded = keras.models.load_model(tmp_path / "tied.keras")
    assert_same_weights(loaded, model, 1e-6)
    assert_close(train(loaded, tokens, labels), train(model, tokens, labels))
    assert_same_weights(loaded, model, 1e-6)


def test_unknown_width():
    with pytest.raises(ValueError, match="other embeds classes only if"):
        AdaptiveSoftmax(9, cutoffs=[3], name="other")(
            keras.Input([5]), embed=True
        )
