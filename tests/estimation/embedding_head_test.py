"""The estimate of an `EmbeddingSoftmax`, against the built layer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.estimated_heads import bytes_of, setting_of, weight_bytes
from tf_hsm.estimation import heads

WIDTH, BATCH = 6, 40


def embedding_softmax(**options):
    tree = tf_hsm.Tree.two_level(100)
    return tf_hsm.layers.EmbeddingSoftmax(
        tree, num_embeddings=50, width=WIDTH, **options
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("rule", [None, "sgd", "rowwise_adagrad", "lazy_adam"])
@pytest.mark.parametrize("use_bias", [False, True])
def test_an_embedding_softmax_byte_for_byte(dtype, rule, use_bias):
    layer = embedding_softmax(optimizer=rule, use_bias=use_bias, dtype=dtype)
    model = keras.Sequential([keras.Input([], dtype="int32"), layer])
    optimizer = layer.optimizer
    if optimizer is None:
        optimizer = tf_hsm.optimizers.LazyAdam()
        optimizer.build(layer.trainable_variables)
    slot_bytes = sum(
        bytes_of(optimizer.slots(v)) for v in layer.row_variables()
    )
    setting = setting_of(tf_hsm.optimizers.LazyAdam(), dtype)
    alone = tf_hsm.estimate(
        None, layer, batch=BATCH, dtype=dtype, optimizer=setting.slots.optimizer
    )
    within = tf_hsm.estimate(
        model, batch=BATCH, optimizer=setting.slots.optimizer
    )
    for found in (alone, within):
        assert found.parameter_bytes == weight_bytes(layer)
        assert found.slot_bytes == slot_bytes
        assert (found.gradient_bytes == 0) == (rule is not None)
        assert found.labels == BATCH


@pytest.mark.parametrize("bag", [(), (1,), (3,)])
def test_the_gradient_of_embeddings_has_a_row_for_each_id(bag):
    layer = embedding_softmax()
    rng = np.random.default_rng(0)
    ids = tf.constant(rng.integers(50, size=[BATCH, *bag]), tf.int32)
    labels = rng.integers(100, size=BATCH)
    layer(ids, labels)
    with tf.GradientTape() as tape:
        losses = layer(ids, labels)
    gradient = tape.gradient(losses, layer.embeddings)
    table, tree = heads.of(layer).parts_of((BATCH, *bag), setting_of())
    assert table.gradient_bytes == (
        gradient.values.numpy().nbytes + gradient.indices.numpy().nbytes
    )
    # The tree reads the vectors, however many ids each is the mean of.
    (vectors,) = heads.head(layer.tree).parts(setting_of(), WIDTH)
    assert tree.forward == vectors.forward
    assert table.parameters == 50 * WIDTH


@pytest.mark.parametrize("rule", [None, "adagrad"])
def test_bags_cost_more_than_ids(rule):
    head = heads.of(embedding_softmax(optimizer=rule))
    (ids, tree), (bags, other) = (
        head.parts_of(shape, setting_of()) for shape in ((BATCH,), (BATCH, 5))
    )
    for name in ("forward", "backward"):
        assert getattr(bags, name).bytes > 3 * getattr(ids, name).bytes
        assert getattr(other, name) == getattr(tree, name)
    gradient = 4 * WIDTH * BATCH
    held = gradient if rule else 0
    assert ids.backward_bytes == held
    assert bags.backward_bytes == 5 * (gradient + held)


@pytest.mark.parametrize("rule", ["sgd", "lazy_adam"])
def test_a_step_of_embeddings_does_what_an_optimizer_does(rule):
    plain, in_place = (
        heads.of(embedding_softmax(optimizer=own)).parts(setting_of(rule), 0)[0]
        for own in (None, rule)
    )
    assert in_place.forward == plain.forward
    assert in_place.backward == plain.backward + plain.update
    assert in_place.slot_bytes == plain.slot_bytes
    assert in_place.gradient_bytes == in_place.update.bytes == 0


def test_an_embedding_softmax_takes_ids():
    layer = embedding_softmax()
    with pytest.raises(ValueError, match="takes ids, but the body makes"):
        tf_hsm.estimate("lstm:6", layer, batch=3)
    with pytest.raises(ValueError, match="width is 7, but head has 6"):
        tf_hsm.estimate(None, layer, batch=3, width=7)


def test_several_labels_are_so_many_bags():
    layer = embedding_softmax(several_labels=True)
    found, paths = (
        tf_hsm.estimate(None, layer, batch=batch, labels_per_example=labels)
        for batch, labels in ((10, 4), (40, 1))
    )
    assert found.flops == paths.flops
    # Ids are repeated, not vectors.
    assert found.saved_bytes == paths.saved_bytes
    assert found.gradient_bytes == paths.gradient_bytes
