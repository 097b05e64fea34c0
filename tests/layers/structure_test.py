"""HierarchicalSoftmax in models of several shapes, and used wrongly."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import models, oracle
from tests.support.in_place_models import make_adaptive
from tests.support.training import assert_same


def test_symbolic_outputs():
    """Shapes and types are known before any value is."""
    inputs = keras.Input([models.STEPS, models.WIDTH])
    outputs = models.make_head()(inputs)
    assert (outputs.shape, outputs.dtype) == (
        (None, models.STEPS, models.WIDTH),
        "float32",
    )
    for labels_shape in ([models.STEPS], [models.STEPS, 1], [None]):
        labels = keras.Input(labels_shape, dtype="int32")
        losses = models.make_head()(inputs, labels)
        assert (losses.shape, losses.dtype) == ((None, models.STEPS), "float32")
    head = models.make_head(use_bias=False)
    losses = head(keras.Input([models.WIDTH]), keras.Input([], dtype="int64"))
    assert losses.shape == (None,)
    assert head.kernel.shape == (models.TREE.num_rows, models.WIDTH)
    assert head.bias is None and len(head.weights) == 1
    shape = (None, models.STEPS, models.WIDTH)
    assert head.compute_output_shape(shape) == shape
    assert head.compute_output_shape(shape, shape[:-1]) == shape[:-1]
    embeds = tf_hsm.layers.EmbeddingSoftmax(
        models.TREE, num_embeddings=9, width=3
    )
    for shape in ([None], [None, 4], [(None, 4), (None, 4)]):
        assert embeds.compute_output_shape(shape) == (None, 3)
        assert embeds.compute_output_shape(shape, [None]) == (None,)


def test_two_heads():
    """Each output has a head, a tree, labels and a perplexity of its own."""
    tokens, labels = models.make_data()
    other_tree = tf_hsm.Tree.two_level(7)
    heads = [
        models.make_head(name="words"),
        models.make_head(other_tree, name="tags"),
    ]
    inputs = keras.Input([models.STEPS], dtype="int32")
    hidden = models.sequential(*models.hidden_layers())(inputs)
    model = keras.Model(inputs, [head(hidden) for head in heads])
    metrics = [[tf_hsm.metrics.Perplexity(head)] for head in heads]
    model.compile(models.sgd(), loss=[h.loss for h in heads], metrics=metrics)
    y = [labels, labels % 7]
    losses = models.train(model, tokens, y, epochs=3)
    assert losses[-1] < losses[0]
    logs = model.evaluate(
        tokens, y, batch_size=len(tokens), verbose=0, return_dict=True
    )
    hidden = keras.Model(inputs, hidden)(tokens).numpy()
    kept = tokens != 0
    for head, labels, name in zip(heads, y, ["words", "tags"], strict=True):
        mean = head(hidden[kept], labels[kept]).numpy().mean()
        np.testing.assert_allclose(logs[f"{name}_loss"], mean, rtol=1e-5)
        np.testing.assert_allclose(
            logs[f"{name}_perplexity"], np.exp(mean), rtol=1e-5
        )


@pytest.mark.parametrize("form", ["compile", "endpoint"])
def test_one_head_used_twice(form):
    """The slices of both uses add up, rows that are in both twice."""
    rng = np.random.default_rng(0)
    x = [rng.normal(size=[8, models.WIDTH]).astype("f4") for _ in range(2)]
    y = [rng.integers(models.TREE.num_classes, size=8) for _ in range(2)]
    inputs = [keras.Input([models.WIDTH]), keras.Input([models.WIDTH])]
    labels = [keras.Input([], dtype="int64"), keras.Input([], dtype="int64")]
    head = models.make_head()
    if form == "compile":
        model = keras.Model(inputs, [head(i) for i in inputs])
        model.compile(models.sgd(), loss=[head.loss, head.loss])
    else:
        losses = [head(i, j) for i, j in zip(inputs, labels, strict=True)]
        model = keras.Model([inputs, labels], losses)
        model.compile(models.sgd())
    kernel, bias = head.get_weights()
    problem = oracle.Problem(
        np.concatenate(x), np.concatenate(y), kernel, bias, np.full(16, 1 / 8)
    )
    value, _ = oracle.hierarchical_softmax(models.TREE, problem)
    data = (x, y) if form == "compile" else ([x, y],)
    loss = models.train(model, *data, epochs=1)
    np.testing.assert_allclose(loss, [value.loss.sum() / 8], rtol=1e-5)
    updated = head.get_weights()
    np.testing.assert_allclose(updated[0], kernel - value.dw, atol=1e-5)
    np.testing.assert_allclose(updated[1], bias - value.db, atol=1e-5)


@pytest.mark.parametrize("form", [models.compile_form, models.endpoint_form])
def test_frozen_head(form):
    """The layers below still learn, and the head stays as it is."""
    tokens, labels = models.make_data()
    model = form(trainable=False)
    head = models.head_of(model)
    assert not head.trainable_weights
    before = head.get_weights()
    data = (
        (tokens, labels) if form is models.compile_form else ([tokens, labels],)
    )
    losses = models.train(model, *data)
    assert losses[1] < losses[0]
    assert_same(head.get_weights(), before)


HEADS = [models.make_head, make_adaptive, models.sampled_head]


@pytest.mark.parametrize(
    "make, policy, eager",
    [
        (make_adaptive, "mixed_float16", False),
        (models.sampled_head, "mixed_float16", False),
        (models.sampled_head, "bfloat16", True),
    ],
)
def test_policies(make, policy, eager):
    """See training_test.py for a HierarchicalSoftmax."""
    tokens, labels = models.make_data()
    compiling = {"run_eagerly": eager}
    model = models.compile_form(make=make, dtype=policy, compiling=compiling)
    head = models.head_of(model)
    assert {v.dtype for v in head.trainable_weights} == {head.variable_dtype}
    before = model.evaluate(tokens, labels, verbose=0)[0]
    models.train(model, tokens, labels)
    assert model.evaluate(tokens, labels, verbose=0)[0] < before


@pytest.mark.parametrize("make", HEADS)
def test_unsigned_labels(make):
    """They are what they are as int64, and none is the ignored one."""
    x = np.random.default_rng(0).normal(size=[4, models.WIDTH]).astype("f4")
    labels, head = np.array([0, 29, 7, 7]), make(ignore_class=-1)
    losses = head(x, labels)
    for dtype in ("uint64", "uint32", "uint8"):
        typed = labels.astype(dtype)
        outputs = head(x)
        np.testing.assert_array_equal(head(x, typed), losses)
        mean = np.mean(losses)
        np.testing.assert_allclose(head.loss(typed, outputs), mean, rtol=1e-6)
        accuracy = tf_hsm.metrics.TopKAccuracy(head, models.TREE.num_classes)
        accuracy.update_state(typed, outputs)
        assert float(accuracy.result()) == 1
    past_int64 = np.full(4, 2**64 - 1, "uint64")
    for step in (
        lambda: head(x, past_int64),
        lambda: head.loss(past_int64, head(x)),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="labels"):
            step()


def test_labels_that_do_not_fit():
    """A wrong shape, or a class that the tree does not have."""
    tokens, labels = models.make_data()
    with pytest.raises(ValueError, match=r"labels, of shape \(None, 4\)"):
        models.train(models.compile_form(), tokens, labels[:, :4])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"labels\[\d+\]"):
        models.train(models.compile_form(), tokens, labels + 30)
