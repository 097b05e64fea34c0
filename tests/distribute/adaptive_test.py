"""An adaptive softmax whose tails are on devices, which embeds by its rows.

Other models and answers of such heads are in fit_test and predictions_test.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.devices import CPUS
from tests.support.training import assert_near
from tests.support.update_rules import OPTIMIZERS
from tf_hsm.layers import AdaptiveSoftmax

N, WIDTH, BATCH = 60, 16, 24
DEVICES = ("CPU:3", "CPU:1")
FIT = {"batch_size": 8, "epochs": 2, "verbose": 0, "shuffle": False}


def make_model(devices, own):
    """A model that embeds by the rows of its head."""
    keras.utils.set_random_seed(0)
    head = AdaptiveSoftmax(
        N,
        cutoffs=[10, 20, 40],
        div_value=2,
        tail=["flat", "two_level", 2],
        devices=devices,
        width=WIDTH,
        optimizer=OPTIMIZERS["lazy_adam"]() if own else None,
    )
    tokens = keras.Input([None], dtype="int32")
    body = keras.layers.Dense(WIDTH, activation="tanh")
    model = keras.Model(tokens, head(body(head(tokens, embed=True))))
    optimizer = OPTIMIZERS["lazy_adam"]()
    model.compile(optimizer, loss=head.loss, run_eagerly=True)
    return model


def data():
    rng = np.random.default_rng(0)
    return rng.integers(N, size=(BATCH, 5)), rng.integers(N, size=(BATCH, 5))


def check_devices(model, head):
    """Asserts that all of a tail is on its device, the shortlist on the first.

    Projections are products there.
    """
    rows = head.optimizer or model.optimizer
    for number, device in enumerate(["CPU:3", "CPU:1", "CPU:3"]):
        projection = head.projections[number]
        tables = [head.tail_kernels[number], head.tail_biases[number]]
        slots = [s for v in tables for s in rows.slots(v)]
        slots += model.optimizer.slots(projection)
        for variable in (projection, *tables, *slots):
            assert variable.value.device.endswith(device)
    assert head.head_kernel.value.device.endswith("CPU:0")

    @tf.function
    def gradient(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = tf.reduce_sum(head._head.parts[0].project(inputs))
        return tape.gradient(total, [inputs, head.projections[0].value])

    graph = gradient.get_concrete_function(tf.zeros([3, WIDTH])).graph
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    assert len(products) == 3
    assert all("CPU:3" in op.device for op in products)


@pytest.mark.parametrize("own", [False, True])
def test_trains_and_grows(own):
    """As without devices; its tails stay on theirs."""
    one, several = (make_model(devices, own) for devices in (None, DEVICES))
    for model in (one, several):
        model.fit(*data(), **FIT)
    assert_near(several.get_weights(), one.get_weights(), 1e-4)
    check_devices(several, several.layers[1])
    several.set_weights(one.get_weights())
    one, several = (tf_hsm.grow(model, N + 5) for model in (one, several))
    assert_near(several.get_weights(), one.get_weights(), 0)
    head = several.layers[1]
    assert head.num_classes == N + 5
    several.run_eagerly = True
    losses = several.fit(*data(), **FIT).history["loss"]
    assert losses[-1] < losses[0]
    check_devices(several, head)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdaptiveSoftmax(N, cutoffs=[10], devices=CPUS[:2]),
        lambda: tf_hsm.layers.HierarchicalSoftmax(
            tf_hsm.Tree.two_level(N), devices=CPUS[:2]
        ),
        lambda: tf_hsm.layers.HierarchicalSoftmax(
            tf_hsm.Tree.two_level(N),
            plan=tf_hsm.distribute.plan(tf_hsm.Tree.two_level(N), CPUS[:2]),
        ),
    ],
)
def test_no_replicas_of_heads_on_devices(make):
    """Each replica would have a copy of every shard and tail."""
    with tf.distribute.MirroredStrategy(CPUS[:2]).scope():
        head = make()
        with pytest.raises(
            ValueError,
            match=r'not possible on 2 replicas.*="replicas"',
        ):
            head.build([None, WIDTH])
    with tf.distribute.OneDeviceStrategy(CPUS[0]).scope():
        make().build([None, WIDTH])
