"""An adaptive softmax whose tails are on devices is the same as without."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.devices import CPUS
from tests.support.training import assert_near
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import serving
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


@functools.cache
def of_devices(own):
    """A model to be read alone, with an optimizer of the head's own or not."""
    return trained(DEVICES, eagerly=True, own=own)


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
    model, head, _ = of_devices(own)
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
def test_files(tmp_path, own):
    model, _, _ = of_devices(own)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    (head,) = (x for x in loaded.layers if isinstance(x, AdaptiveSoftmax))
    assert head.devices == tuple(DEVICES)
    other, _ = make_model(None, own=own)
    loaded.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    assert_near(other.get_weights(), model.get_weights(), 0)


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


def test_export(tmp_path):
    """It is served from one device."""
    keras.utils.set_random_seed(0)
    head = AdaptiveSoftmax(
        N, cutoffs=[10, 20, 40], div_value=2, devices=DEVICES
    )
    model = keras.Sequential([keras.Input([WIDTH]), head])
    serving.export(model, str(tmp_path / "served"), k=4)
    served = tf.saved_model.load(str(tmp_path / "served"))
    signature = served.signatures["serving_default"]
    inputs = np.random.default_rng(0).normal(size=(5, WIDTH)).astype("f4")
    found = signature(inputs=tf.constant(inputs))
    np.testing.assert_array_equal(
        found["classes"], head.top_k(inputs, 4).classes
    )
    places = {op.device for op in signature.graph.get_operations()}
    assert not any(name in place for name in DEVICES for place in places)
    assert head.devices == tuple(DEVICES)


@pytest.mark.parametrize("own", [False, True])
def test_checkpoints_on_other_devices(tmp_path, own):
    """Weights, slots and steps have the same bits; then training goes on."""

    def state(model, head):
        optimizers = (
            [model.optimizer, head.optimizer] if own else [model.optimizer]
        )
        return [
            *head.get_weights(),
            *(v.numpy() for o in optimizers for v in o.variables),
        ]

    def checkpoint(model, head):
        saved = tf_hsm.distribute.checkpoint(head, optimizer=model.optimizer)
        (dense,) = (x for x in model.layers if x.name.startswith("dense"))
        return tf.train.Checkpoint(head=saved, dense=dense)

    model, head, _ = of_devices(own)
    path = checkpoint(model, head).save(tmp_path / "saved")
    before, losses = state(model, head), []
    for devices in (["CPU:2"], None, DEVICES):
        other, other_head, _ = trained(devices, eagerly=True, own=own)
        other_head.head_kernel.assign(0 * other_head.head_kernel)
        other_head.projections[1].assign(0 * other_head.projections[1])
        checkpoint(other, other_head).restore(path).assert_consumed()
        if own:  # The Dense layer's slots belong to the model alone.
            assert_near(other_head.get_weights(), head.get_weights(), 0)
        else:
            assert_near(state(other, other_head), before, 0)
        losses.append(other.evaluate(*data(), verbose=0))
    assert_near(losses, [model.evaluate(*data(), verbose=0)] * 3, 1e-6)


def test_checkpoints_of_other_clusters(tmp_path):
    saved = AdaptiveSoftmax(N, cutoffs=[10, 30])
    other = AdaptiveSoftmax(N, cutoffs=[30, 50])
    for head in (saved, other):
        head.build([None, WIDTH])
    path = tf_hsm.distribute.checkpoint(saved).save(tmp_path / "saved")
    with pytest.raises(ValueError, match="another tree"):
        tf_hsm.distribute.checkpoint(other).restore(path)


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
            ValueError, match="names of devices are not possible on 2 replicas"
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
