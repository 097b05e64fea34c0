"""An adaptive softmax whose tails are on devices is the same as without."""

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


def make_model(devices, rule="lazy_adam", own=False, **options):
    keras.utils.set_random_seed(0)
    if own:
        options["optimizer"] = OPTIMIZERS[rule]()
    head = AdaptiveSoftmax(
        N,
        cutoffs=[10, 20, 40],
        div_value=2,
        tail=["flat", "two_level", 2],
        devices=devices,
        width=WIDTH,
        **options,
    )
    tokens = keras.Input([None], dtype="int32")
    body = keras.layers.Dense(WIDTH, activation="tanh")
    model = keras.Model(tokens, head(body(head(tokens, embed=True))))
    model.compile(OPTIMIZERS[rule](), loss=head.loss)
    return model, head


def data():
    rng = np.random.default_rng(0)
    return rng.integers(N, size=(BATCH, 5)), rng.integers(N, size=(BATCH, 5))


def trained(devices, eagerly=False, **options):
    model, head = make_model(devices, **options)
    model.run_eagerly = eagerly
    history = model.fit(
        *data(), batch_size=8, epochs=2, verbose=0, shuffle=False
    )
    return model, head, history.history["loss"]


@pytest.mark.parametrize(
    "rule, own, eagerly",
    [
        ("adagrad", False, False),
        ("lazy_adam", True, False),
        ("rowwise_adagrad", True, True),
    ],
)
def test_as_without_devices(rule, own, eagerly):
    """By the optimizer of the model, or by the layer's own, in place."""
    one = trained(None, eagerly=True, rule=rule, own=own)
    several = trained(DEVICES, eagerly, rule=rule, own=own)
    assert several[2][-1] < several[2][0]
    assert_near(several[2], one[2], 1e-5)
    assert_near(several[0].get_weights(), one[0].get_weights(), 1e-4)
    inputs = tf.constant(
        np.random.default_rng(1).normal(size=(7, WIDTH)), "float32"
    )
    classes = data()[0][:7]
    for ask in (
        lambda head: head.log_probs(inputs),
        lambda head: head.log_prob(classes, inputs),
        lambda head: head.top_k(inputs, 12).log_probs,
    ):
        assert_near(ask(several[1]), ask(one[1]), 1e-3)
    assert several[1].sample(inputs, 3, seed=1).shape == (7, 3)


@pytest.mark.parametrize("own", [False, True])
def test_everything_of_a_tail_is_on_its_device(own):
    model, head, _ = trained(DEVICES, eagerly=True, own=own)
    rows = head.optimizer if own else model.optimizer
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
def test_grows(own):
    """As without devices; its tails stay on theirs."""
    (one, *_), (several, *_) = (
        trained(devices, eagerly=True, own=own) for devices in (None, DEVICES)
    )
    several.set_weights(one.get_weights())
    one, several = (tf_hsm.grow(model, N + 5) for model in (one, several))
    assert_near(several.get_weights(), one.get_weights(), 0)
    head = several.layers[1]
    assert head.num_classes == N + 5
    optimizer = head.optimizer if own else several.optimizer
    for number, device in enumerate(["CPU:3", "CPU:1", "CPU:3"]):
        rows = head.tail_kernels[number]
        for variable in (rows, *optimizer.slots(rows)):
            assert variable.value.device.endswith(device)
    several.run_eagerly = True
    history = several.fit(*data(), batch_size=8, epochs=2, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]


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


def test_bad_devices():
    with pytest.raises(TypeError, match="devices must be a list"):
        AdaptiveSoftmax(N, cutoffs=[10], devices="CPU:1")
    head = AdaptiveSoftmax(N, cutoffs=[10], devices=["CPU:1", *CPUS, "GPU:9"])
    with pytest.raises(
        ValueError, match=r"devices\[9\] = 'GPU:9' is not there"
    ):
        head.build([None, WIDTH])
