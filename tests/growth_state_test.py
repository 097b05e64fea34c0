"""What a grown model has of other layers than its head, and of `compile`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tf_hsm import Tree, layers

X = np.random.default_rng(0).normal(100, 10, [64, 8]).astype("f4")
Y = np.arange(64) % 20


def grown_alike(model, **options):
    """A model that has grown by nothing."""
    head = options.get("head", model.layers[-1])
    return tf_hsm.grow(model, head.tree, **options)


def assert_grows_alike(model, head):
    """A trained model evaluates as it does after it has grown by nothing."""
    model.compile("sgd", head.loss)
    model.fit(X, Y, verbose=0)
    grown = grown_alike(model, head=head)
    assert grown.evaluate(X, Y, verbose=0) == model.evaluate(X, Y, verbose=0)


def test_normalization():
    """What it makes of its variables."""
    norm = keras.layers.Normalization()
    norm.adapt(X)
    head = layers.HierarchicalSoftmax(Tree.two_level(20))
    inner = keras.Sequential([keras.Input([8]), norm])
    assert_grows_alike(keras.Sequential([keras.Input([8]), inner, head]), head)


def reading_model(read):
    """A model whose first layer makes ids of strings `[..., 1]`."""
    return keras.Sequential(
        [
            keras.Input([1], dtype="string"),
            read,
            keras.layers.Embedding(9, 5),
            keras.layers.Flatten(),
            layers.HierarchicalSoftmax(Tree.two_level(20)),
        ]
    )


def test_vocabulary():
    """That of a layer which has read texts."""
    texts = tf.constant([["a b c"], ["c d"], ["b"]])
    read = keras.layers.TextVectorization(output_sequence_length=4)
    read.adapt(texts)
    model = reading_model(read)
    grown = grown_alike(model)
    np.testing.assert_array_equal(
        grown.predict(texts, verbose=0), model.predict(texts, verbose=0)
    )


def test_a_vocabulary_that_keras_does_not_save():
    """Its tokens would have other ids."""
    read = keras.layers.StringLookup()
    read.adapt(tf.constant(["", "a", "a"]))
    model = reading_model(read)
    with pytest.raises(ValueError, match="tokens that Keras does not save"):
        grown_alike(model)


def test_adapters():
    """Those of LoRA train on; Keras' files have them in the kernel."""
    dense = keras.layers.Dense(8, lora_rank=2)
    table = keras.layers.Embedding(20, 8, lora_rank=2)
    head = layers.HierarchicalSoftmax(Tree.two_level(20))
    model = keras.Sequential([keras.Input([]), table, dense, head])
    model.compile("sgd", head.loss)
    model.fit(Y, Y, verbose=0)
    grown = grown_alike(model)
    for its, old in zip(grown.weights, model.weights, strict=True):
        np.testing.assert_array_equal(its, old)
    assert np.any(grown.layers[1].lora_kernel_a)


def test_layers_beside_the_graph():
    """They are not the copy's."""
    head = layers.HierarchicalSoftmax(Tree.two_level(20))
    inputs = keras.Input([8])
    dense = keras.layers.Dense(6)
    model = keras.Model(inputs, head(dense(inputs)))
    model.before = keras.layers.Rescaling(0.1)
    model.body = keras.Sequential([keras.Input([8]), dense])
    assert_grows_alike(model, head)


def test_the_optimizer_of_another_head():
    inputs = keras.Input([8])
    one, other = (
        layers.HierarchicalSoftmax(Tree.two_level(20), name=name, **options)
        for name, options in (("one", {}), ("other", {"optimizer": "adagrad"}))
    )
    model = keras.Model(inputs, [one(inputs), other(inputs)])
    model.compile("sgd", [one.loss, other.loss])
    model.fit(X, [Y, Y], verbose=0)
    grown = grown_alike(model, head=one)
    found = grown.get_layer("other").optimizer
    assert found.iterations == other.optimizer.iterations == 2
    for its, old in zip(
        found.variables, other.optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(its, old)


@pytest.mark.parametrize("trained", [False, True])
def test_what_the_model_must_not_decay(trained):
    """Rows that a head trains itself are not the model optimizer's."""
    head = layers.HierarchicalSoftmax(Tree.two_level(20), optimizer="sgd")
    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(6), head])
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(head.non_trainable_variables)
    model.compile(optimizer, head.loss)
    if trained:
        model.fit(X, Y, verbose=0)
    grown_alike(model).fit(X, Y, verbose=0)


def test_a_loss_that_is_not_scaled():
    """Keras forgets that it was asked not to."""
    head = layers.HierarchicalSoftmax(Tree.two_level(20), optimizer="sgd")
    options = {"dtype": "mixed_float16"}
    model = keras.Sequential(
        [keras.Input([8]), keras.layers.Dense(6, **options), head]
    )
    own = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = keras.Sequential(model.layers)
    finally:
        keras.config.set_dtype_policy(own)
    optimizer = tf_hsm.optimizers.LazyAdam(0.01)
    model.compile(optimizer, head.loss, auto_scale_loss=False)
    model.fit(X, Y, verbose=0)
    grown = grown_alike(model)
    assert grown.dtype_policy.name == "mixed_float16"
    assert grown.optimizer.iterations == model.optimizer.iterations
    grown.fit(X, Y, verbose=0)
