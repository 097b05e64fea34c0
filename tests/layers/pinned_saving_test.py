"""Heads on pinned trees that are saved, exported and grown."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.pinned_heads import TREE, WIDTH, data, two_heads
from tf_hsm.layers import HierarchicalSoftmax


@pytest.mark.parametrize("own", [True, False])
def test_saved_and_loaded(own, tmp_path):
    optimizer = "rowwise_adagrad"
    head = HierarchicalSoftmax(TREE, optimizer=optimizer if own else None)
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile(
        "sgd" if own else tf_hsm.optimizers.RowwiseAdagrad(),
        head.loss,
        metrics=[
            tf_hsm.metrics.Perplexity(head),
            tf_hsm.metrics.TopKAccuracy(head, 3),
        ],
        run_eagerly=True,
    )
    x, labels = data((32,))
    model.fit(x, labels, epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1].tree == TREE
    one, other = (
        m.evaluate(x, labels, verbose=0, return_dict=True)
        for m in (model, loaded)
    )
    assert one == other and one["perplexity"] > 1
    histories = [
        m.fit(x, labels, shuffle=False, verbose=0).history["loss"]
        for m in (model, loaded)
    ]
    assert histories[0] == histories[1]
    assert loaded.layers[-1].kernel.shape == (TREE.num_groups, WIDTH)


def test_exported(tmp_path):
    head, _ = two_heads()
    model = keras.Sequential([keras.Input([WIDTH], name="x"), head])
    x, labels = data((5,))
    tf_hsm.serving.export(model, tmp_path / "model", k=4)
    served = tf.saved_model.load(tmp_path / "model")
    found = served.serving_default(x)
    wanted = head.top_k(x, 4)
    np.testing.assert_array_equal(found["classes"], wanted.classes)
    np.testing.assert_array_equal(found["log_probs"], wanted.log_probs)
    found = served.log_prob(x, labels[:, np.newaxis])["log_probs"]
    np.testing.assert_array_equal(
        found, head.log_prob(labels[:, np.newaxis], x)
    )
    classes = served.sample(x, 7, num_samples=tf.constant(3, tf.int64))
    np.testing.assert_array_equal(classes["classes"], head.sample(x, 3, seed=7))


@pytest.mark.parametrize("use_bias", [True, False])
def test_grows_to_the_expanded_tree(use_bias):
    head, other = two_heads(use_bias=use_bias)
    for tree in (TREE.expand(), TREE.expand().grow(3, near=[0, 5, 9])):
        grown, wanted = (h.grow(tree) for h in (head, other))
        assert grown.tree == tree
        for mine, its in zip(
            grown.row_variables(), wanted.row_variables(), strict=True
        ):
            np.testing.assert_array_equal(mine, its)
    with pytest.raises(ValueError, match=r"pinned.*expand\(\)"):
        head.grow(TREE)


@pytest.mark.parametrize("own", [True, False])
def test_a_model_grows_with_its_slots(own):
    rule = tf_hsm.optimizers.Adagrad(0.1, 0.1)
    head = HierarchicalSoftmax(TREE, optimizer=rule if own else None)
    model = keras.Sequential([keras.Input([WIDTH]), head])
    model.compile("sgd" if own else rule, head.loss)
    x, labels = data((20,))
    model.fit(x, labels, verbose=0)
    grown = tf_hsm.grow(model, TREE.expand())
    slots = []
    for m, layer in ((model, head), (grown, grown.layers[-1])):
        optimizer = layer.optimizer if own else m.optimizer
        (slot,) = (
            v.numpy() for v in optimizer.variables if v.shape[1:] == (WIDTH,)
        )
        slots.append(slot)
    before, after = slots
    np.testing.assert_array_equal(after[0::2], before)
    np.testing.assert_allclose(after[1::2], 0.1)
    np.testing.assert_allclose(
        grown.evaluate(x, labels, verbose=0),
        model.evaluate(x, labels, verbose=0),
        rtol=1e-5,
    )
