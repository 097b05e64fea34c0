"""Keras' `fit`, `evaluate` and `predict` of heads over two replicas."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import spread_heads as heads
from tests.support.in_place_models import (
    arguments,
    head_state,
    layers_of,
    make_adaptive,
    make_model,
    own_variables,
    random_weights,
)
from tests.support.models import (
    NUM_CLASSES,
    TREE,
    WIDTH,
    head_of,
    make_data,
    make_head,
)
from tests.support.training import assert_near, assert_same, layer_step
from tf_hsm import distribute
from tf_hsm.layers import AdaptiveSoftmax, HierarchicalSoftmax

PLAN = distribute.plan(TREE, 1, top=6)
# How the head is made, and the options for replicas.
HEADS = {
    "tree": (make_head, {"plan": PLAN, "devices": "replicas"}),
    "clusters": (make_adaptive, {"devices": "replicas"}),
}


def make(head, form, *args, **options):
    """A model over two replicas."""
    function, over_replicas = HEADS[head]
    with heads.strategy_of(2).scope():
        return make_model(
            form, *args, make=function, **over_replicas, **options
        )


def pair(head, *args, **options):
    """A model on one device, and one over replicas with the same weights."""
    one = make_model(*args, make=HEADS[head][0], **options)
    several = make(head, *args, **options)
    for mine, other in zip(layers_of(several), layers_of(one), strict=True):
        mine.load_own_variables(own_variables(other))
    return one, several


@pytest.mark.parametrize("head", HEADS)
def test_fit(head):
    """Masks, ignored and weighted labels, metrics, and a smaller last batch."""
    tokens, labels = make_data(seed=3)
    labels[:, 1] = -1
    data = arguments("compile", tokens, labels, random_weights())
    models = pair(
        head,
        "compile",
        "lazy_adam",
        ignore_class=-1,
        compiling=lambda head: {
            "metrics": None,
            "weighted_metrics": [tf_hsm.metrics.TopKAccuracy(head, 3)],
        },
    )
    models[0].run_eagerly = True
    results = []
    for model in models:
        options = {"batch_size": 10, "verbose": 0}
        history = model.fit(**data, shuffle=False, **options).history
        found = model.evaluate(**data, **options)
        weights = [own_variables(layer) for layer in layers_of(model)]
        slots = {}
        head_of(model).optimizer.save_own_variables(slots)
        results.append([history, found, weights, slots])
    assert_near(*results, 1e-5)
    classes = [head_of(m).predict_class(m.predict(tokens)) for m in models]
    assert_same(*classes)


@pytest.mark.parametrize("head", HEADS)
def test_the_head_as_an_endpoint(head):
    """Keras divides what layers add to the losses by the replicas.

    All replicas get the whole batch, whose mean is the mean of all.
    """
    tokens, labels = make_data(10)
    data = arguments("endpoint", tokens, labels, random_weights()[:10])["x"]
    models = pair(head, "endpoint", "adagrad", weighted=True)
    models[0].run_eagerly = True
    losses = [[m.train_on_batch(data) for _ in range(3)] for m in models]
    assert_near(*losses, 1e-5)
    weights = [[own_variables(x) for x in layers_of(m)] for m in models]
    assert_near(*weights, 1e-5)


def test_losses_of_other_layers():
    """Each replica keeps its own while replicas exchange examples."""
    models = []
    for strategy, options in (
        (tf.distribute.get_strategy(), {}),
        (heads.strategy_of(2), {"plan": PLAN, "devices": "replicas"}),
    ):
        with strategy.scope():
            inputs = keras.Input([WIDTH])
            hidden = keras.layers.ActivityRegularization(l2=1.0)(inputs)
            hidden = keras.layers.Dense(WIDTH)(hidden)
            head = HierarchicalSoftmax(TREE, optimizer="sgd", **options)
            model = keras.Model(inputs, head(hidden))
            model.compile("sgd", head.loss)
        models.append(model)
    for mine, other in zip(*map(layers_of, models), strict=True):
        other.load_own_variables(own_variables(mine))
    x = np.random.default_rng(0).normal(size=(8, WIDTH)).astype("f4")
    labels = np.arange(8)
    losses = [[m.train_on_batch(x, labels) for _ in range(2)] for m in models]
    assert_near(*losses, 1e-5)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("eager", [False, True])
def test_a_label_that_is_no_class(head, eager):
    """On one replica: both stop, with its sentence, and nothing moves."""
    tokens, labels = make_data()
    labels[2, 3] = NUM_CLASSES
    model = make(head, "compile", mask_zero=False)
    before = head_state(model)
    model.run_eagerly = eager
    sentence = rf"labels\[13\] = {NUM_CLASSES} is outside \[0, {NUM_CLASSES}\)"
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        model.train_on_batch(tokens, labels)
    assert_same(head_state(model), before)
    labels[2, 3] = 1
    model.train_on_batch(tokens, labels)
    assert head_of(model).optimizer.iterations.numpy() == 1


def test_names_of_devices_under_a_strategy():
    """Each replica would have a copy of each shard."""
    with (
        heads.strategy_of(2).scope(),
        pytest.raises(ValueError, match=r'give the layer .*="replicas"'),
    ):
        HierarchicalSoftmax(TREE, devices=heads.CPUS[:2]).build([None, 3])


def test_bad_arguments():
    strategy = heads.strategy_of(2)
    options = {"devices": "replicas", "optimizer": "sgd"}
    with pytest.raises(ValueError, match="needs an optimizer of the layer's"):
        HierarchicalSoftmax(TREE, devices="replicas")
    with pytest.raises(ValueError, match="needs an optimizer of the layer's"):
        AdaptiveSoftmax(NUM_CLASSES, devices="replicas")
    outside = HierarchicalSoftmax(TREE, **options)
    optimizer = tf_hsm.optimizers.SGD(0.1)
    with strategy.scope():
        with pytest.raises(ValueError, match=r"within strategy.scope\(\)"):
            outside.build([None, WIDTH])
        head = HierarchicalSoftmax(TREE, devices="replicas", optimizer="sgd")
        with pytest.raises(ValueError, match="call the layer in the function"):
            layer_step(head, tf.ones([2, WIDTH]), tf.constant([0, 1]))
        head = HierarchicalSoftmax(
            TREE, devices="replicas", optimizer=optimizer
        )
        with pytest.raises(ValueError, match="make the optimizer within"):
            head.build([None, WIDTH])
        for embed in (
            lambda head: head.embed([1]),
            lambda head: head(keras.Input([]), embed=True),
        ):
            head = AdaptiveSoftmax(NUM_CLASSES, width=WIDTH, **options)
            head.build([None, WIDTH])
            with pytest.raises(ValueError, match="embed is not possible with"):
                embed(head)
        with pytest.raises(ValueError, match="grow is not possible with"):
            head.grow(NUM_CLASSES + 5)
        head = HierarchicalSoftmax(TREE, **options, dtype="bfloat16")
        with pytest.raises(ValueError, match="must be float32 or float64"):
            head.build([None, WIDTH])
    with (
        tf.distribute.experimental.CentralStorageStrategy().scope(),
        pytest.raises(ValueError, match="this is a CentralStorageStrategy"),
    ):
        HierarchicalSoftmax(TREE, **options)


def test_training_outside_the_strategy():
    """The op would move the first copy of the top alone: refused."""
    with heads.strategy_of(2).scope():
        head = HierarchicalSoftmax(TREE, devices="replicas", optimizer="sgd")
        head.build([None, WIDTH])
    before = head.kernel.numpy()
    with pytest.raises(ValueError, match="there are 2 replicas"):
        layer_step(head, tf.ones([2, WIDTH]), tf.constant([0, 1]))
    assert_same(head.kernel.numpy(), before)
