"""What a grown model has of other layers than its head, and of `compile`."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.training import assert_same
from tf_hsm import Tree, layers

X = np.random.default_rng(0).normal(100, 10, [64, 8]).astype("f4")
Y = np.arange(64) % 20


def grown_alike(model, **options):
    """A model that has grown by nothing."""
    head = options.get("head", model.layers[-1])
    return tf_hsm.grow(model, head.tree, **options)


def assert_grows_alike(model, head):
    """A trained model evaluates as it does after it has grown by nothing."""
    model.compile("sgd", head.loss, run_eagerly=True)
    model.fit(X, Y, verbose=0)
    grown = grown_alike(model, head=head)
    assert grown.evaluate(X, Y, verbose=0) == model.evaluate(X, Y, verbose=0)


def make_head(**options):
    return layers.HierarchicalSoftmax(Tree.two_level(20), **options)


@contextlib.contextmanager
def float16_policy():
    """Within, layers and models are of mixed_float16."""
    own = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(own)


def test_normalization():
    """What it makes of its variables."""
    norm = keras.layers.Normalization()
    norm.adapt(X)
    head = make_head()
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
            make_head(),
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
    head = make_head()
    model = keras.Sequential([keras.Input([]), table, dense, head])
    model.compile("sgd", head.loss)
    model.fit(Y, Y, verbose=0)
    grown = grown_alike(model)
    assert_same(grown.weights, model.weights)
    assert np.any(grown.layers[1].lora_kernel_a)


def test_layers_beside_the_graph():
    """They are not the copy's."""
    head = make_head()
    inputs = keras.Input([8])
    dense = keras.layers.Dense(6)
    model = keras.Model(inputs, head(dense(inputs)))
    model.before = keras.layers.Rescaling(0.1)
    model.body = keras.Sequential([keras.Input([8]), dense])
    assert_grows_alike(model, head)


def two_heads(*optimizers):
    """Heads and nothing else to train; a head may have an optimizer."""
    inputs = keras.Input([8])
    heads = [
        make_head(name=name, optimizer=optimizer)
        for name, optimizer in zip(("one", "other"), optimizers, strict=True)
    ]
    model = keras.Model(inputs, [head(inputs) for head in heads])
    model.compile("sgd", [head.loss for head in heads], run_eagerly=True)
    model.fit(X, [Y, Y], verbose=0)
    return model, heads


def test_the_optimizer_of_another_head():
    model, (one, other) = two_heads(None, "adagrad")
    found = grown_alike(model, head=one).get_layer("other").optimizer
    assert found.iterations == other.optimizer.iterations == 2
    assert_same(found.variables, other.optimizer.variables)


@pytest.mark.parametrize("grows", [0, 1])
def test_heads_with_nothing_else_to_train(grows):
    """Whichever head grows: the model's optimizer has the anchor of one."""
    model, heads = two_heads("sgd", "sgd")
    tree = heads[grows].tree.grow(2)
    grown = tf_hsm.grow(model, tree, head=heads[grows])
    others = [grown.get_layer(head.name) for head in heads]
    before = [head.kernel.numpy() for head in others]
    grown.fit(X, [Y, Y], verbose=0)
    for head, old in zip(others, before, strict=True):
        assert (head.kernel.numpy() != old).any()


@pytest.mark.parametrize("trained", [False, True])
def test_what_the_model_must_not_decay(trained):
    """Rows that a head trains itself are not the model optimizer's."""
    head = make_head(optimizer="sgd")
    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(6), head])
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(head.non_trainable_variables)
    model.compile(optimizer, head.loss)
    if trained:
        model.fit(X, Y, verbose=0)
    grown_alike(model).fit(X, Y, verbose=0)


@pytest.mark.parametrize("own", [False, True])
def test_policy_of_the_model(own):
    """By which Keras scales the loss, whatever the policy is by now.

    A head that trains itself asked Keras not to, which Keras forgets.
    """
    with float16_policy():
        head = make_head(optimizer="sgd" if own else None)
        dense = keras.layers.Dense(6)
        model = keras.Sequential([keras.Input([8]), dense, head])
    model.compile(
        tf_hsm.optimizers.LazyAdam(0.01), head.loss, auto_scale_loss=not own
    )
    model.fit(X, Y, verbose=0)
    grown = grown_alike(model)
    assert grown.dtype_policy.name == "mixed_float16"
    assert grown.layers[-1].compute_dtype == "float16"
    assert keras.config.dtype_policy().name == "float32"
    assert own == (type(grown.optimizer) is tf_hsm.optimizers.LazyAdam)
    assert_same(grown.optimizer.variables, model.optimizer.variables)
    grown.fit(X, Y, verbose=0)
