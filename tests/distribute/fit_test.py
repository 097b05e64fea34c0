"""`fit`, `evaluate` and `predict` of heads on devices and over replicas."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import spread_heads as heads
from tests.support.devices import CPUS
from tests.support.in_place_models import (
    FORMS,
    arguments,
    fit,
    head_state,
    layers_of,
    make_adaptive,
    make_model,
    own_variables,
    random_weights,
    same_start,
)
from tests.support.models import (
    NUM_CLASSES,
    TREE,
    WIDTH,
    head_of,
    make_data,
    make_head,
)
from tests.support.pairs import all_pairs
from tests.support.training import assert_near, assert_same, layer_step
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import distribute
from tf_hsm.layers import AdaptiveSoftmax, HierarchicalSoftmax

PLAN = distribute.plan(TREE, CPUS[:3], top=6)
OF_REPLICAS = {"plan": PLAN.on(["CPU:0"]), "devices": "replicas"}
# The function that makes a head, its options, and how many replicas there are.
HEADS = {
    "tree on devices": (make_head, {"plan": PLAN}, None),
    "tree over replicas": (make_head, OF_REPLICAS, 2),
    "clusters on devices": (make_adaptive, {"devices": CPUS[3:0:-2]}, None),
    "clusters over replicas": (make_adaptive, {"devices": "replicas"}, 2),
}
OVER_REPLICAS = [name for name in HEADS if name.endswith("replicas")]


def make(name, form, *args, **options):
    """A model whose head is on devices or over two replicas."""
    function, own, place = HEADS[name]
    with heads.scope_of(place):
        return make_model(form, *args, make=function, **own, **options)


def pair(name, *args, **options):
    """A model on one device, and one on several that starts as it does.

    The first runs eagerly: a few steps take less time than their graph.
    """
    one = make_model(*args, make=HEADS[name][0], **options)
    one.run_eagerly = True
    return same_start(one, make(name, *args, **options))


def trained(model, data):
    """The losses of `fit` and `evaluate`, and the weights after them."""
    losses = fit(model, data)
    assert losses[-1] < losses[0]
    found = model.evaluate(**data, batch_size=10, verbose=0)
    return [losses, found, list(map(own_variables, layers_of(model)))]


def assert_fits_alike(name, form, data, tolerance, eagerly=False, **options):
    one, several = pair(name, form, **options)
    several.run_eagerly = eagerly
    assert_near(trained(several, data), trained(one, data), tolerance)
    return one, several


@pytest.mark.parametrize(
    "name, form, own, counts",
    [
        *all_pairs(
            ["tree on devices"],
            FORMS,
            [True, False],
            [(True, -1, True), (False, 3, False)],
        ),
        *(
            (name, "compile", True, (True, -1, True))
            for name in HEADS
            if name != "tree on devices"
        ),
        ("clusters on devices", "endpoint", False, (False, 3, False)),
    ],
)
def test_what_counts(name, form, own, counts):
    """Masks, ignored and weighted labels, metrics, and a smaller last batch."""
    mask_zero, ignore_class, weighted = counts
    tokens, labels = make_data(seed=3)
    if ignore_class == -1:
        labels[:, 1] = -1
    given = random_weights() if weighted else None
    options = {}
    if name in OVER_REPLICAS:
        options["compiling"] = lambda head: {
            "metrics": None,
            "weighted_metrics": [tf_hsm.metrics.TopKAccuracy(head, 3)],
        }
    one, several = assert_fits_alike(
        name,
        form,
        arguments(form, tokens, labels, given),
        1e-5,
        rule="lazy_adam",
        own=own,
        mask_zero=mask_zero,
        ignore_class=ignore_class,
        weighted=weighted,
        **options,
    )
    if own:
        slots = [heads.saved(head_of(m).optimizer) for m in (several, one)]
        assert_near(*slots, 1e-5)
    if form == "compile":
        classes = [
            head_of(m).predict_class(m.predict(tokens, verbose=0))
            for m in (one, several)
        ]
        assert_same(*classes)


@pytest.mark.parametrize("name", OVER_REPLICAS)
def test_the_head_as_an_endpoint(name):
    """Keras divides what layers add to the losses by the replicas.

    All replicas get the whole batch, whose mean is the mean of all.
    """
    tokens, labels = make_data(10)
    data = arguments("endpoint", tokens, labels, random_weights()[:10])["x"]
    models = pair(name, "endpoint", "adagrad", weighted=True)
    losses = [[m.train_on_batch(data) for _ in range(3)] for m in models]
    assert_near(*losses, 1e-5)
    weights = [[own_variables(x) for x in layers_of(m)] for m in models]
    assert_near(*weights, 1e-5)


def test_losses_of_other_layers():
    """Each replica keeps its own while replicas exchange examples."""
    models = []
    for strategy, options in (
        (tf.distribute.get_strategy(), {}),
        (heads.strategy_of(2), OF_REPLICAS),
    ):
        with strategy.scope():
            inputs = keras.Input([WIDTH])
            hidden = keras.layers.ActivityRegularization(l2=1.0)(inputs)
            hidden = keras.layers.Dense(WIDTH)(hidden)
            head = HierarchicalSoftmax(TREE, optimizer="sgd", **options)
            model = keras.Model(inputs, head(hidden))
            model.compile("sgd", head.loss)
        models.append(model)
    same_start(*models)
    x = np.random.default_rng(0).normal(size=(8, WIDTH)).astype("f4")
    labels = np.arange(8)
    losses = [[m.train_on_batch(x, labels) for _ in range(2)] for m in models]
    assert_near(*losses, 1e-5)


@pytest.mark.parametrize(
    "policy, eagerly", [("mixed_bfloat16", True), ("mixed_float16", False)]
)
def test_mixed_precision(policy, eagerly):
    data = arguments("compile", *make_data())
    _, several = assert_fits_alike(
        "tree on devices", "compile", data, 2e-2, eagerly, dtype=policy
    )
    assert head_of(several).kernel.dtype == "float32"


def test_bfloat16_weights_are_rounded_at_random():
    """Each part by its own numbers, with the mean of the exact step."""
    tree = tf_hsm.Tree.balanced(64, 8)
    plan = distribute.plan(tree, CPUS, top=8)
    assert [shard.num_classes for shard in plan.shards] == [8] * 8
    head = HierarchicalSoftmax(
        tree,
        plan=plan,
        use_bias=False,
        optimizer=tf_hsm.optimizers.SGD(0.01),
        dtype="bfloat16",
    )
    head.build([None, 40])
    for kernel in head.row_variables():
        kernel.assign(tf.ones_like(kernel))
    inputs = tf.ones([8, 40], tf.bfloat16)
    # The first class of each shard: all have the same gradients.
    layer_step(head, inputs, plan.layout.place_classes[::8])
    kernels = [k.numpy().astype("f8") for k in head.shard_kernels]
    for i, one in enumerate(kernels):
        assert all((one != other).any() for other in kernels[:i])
    # Far below half of what bfloat16 has between 1 and its neighbours.
    change = np.mean(kernels, (0, 2)) - 1
    exact = 0.01 / 8 * ((np.arange(8) == 0) - 1 / 8)
    np.testing.assert_allclose(change, exact, atol=6e-4)
    assert change[0] > 5e-4


def test_row_options():
    """The penalties are of the rows that a batch touches, on each device."""
    data = arguments("compile", *make_data())
    assert_fits_alike(
        "tree on devices",
        "compile",
        data,
        1e-5,
        own=False,
        kernel_regularizer="l2",
        bias_regularizer="l1",
        kernel_constraint=keras.constraints.UnitNorm(axis=1),
    )


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("eager", [False, True])
def test_a_label_that_is_no_class(name, eager):
    """On one replica: both stop, with its sentence, and nothing moves."""
    tokens, labels = make_data()
    labels[2, 3] = NUM_CLASSES
    model = make(name, "compile", mask_zero=False)
    before = head_state(model)
    model.run_eagerly = eager
    sentence = rf"labels\[13\] = {NUM_CLASSES} is outside \[0, {NUM_CLASSES}\)"
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        model.train_on_batch(tokens, labels)
    assert_same(head_state(model), before)
    labels[2, 3] = 1
    model.train_on_batch(tokens, labels)
    assert head_of(model).optimizer.iterations.numpy() == 1


@pytest.mark.parametrize(
    "make",
    [tf_hsm.Tree.two_level, lambda n: tf_hsm.Tree.balanced(n, 2, pinned=True)],
    ids=["two levels", "pinned"],
)
def test_counts_and_starts(make):
    """Biases from counts; weights on the scale of all rows together."""
    counts = 1 / np.arange(1.0, 20_001)
    tree = make(counts.size)
    heads = [
        HierarchicalSoftmax(tree, counts=counts, **places)
        for places in ({}, {"devices": CPUS[:4]})
    ]
    biases, scales = [], []
    for head in heads:
        head.build([None, WIDTH])
        store = {}
        head.save_own_variables(store)
        kernel, bias = (np.asarray(store[key]) for key in "01")
        biases.append(bias)
        scales.append([kernel.std(), abs(kernel).max()])
        assert np.unique(kernel).size > 0.9 * kernel.size
    assert_same(*biases)
    np.testing.assert_allclose(*scales, rtol=0.02)


def test_bad_arguments():
    with pytest.raises(ValueError, match="devices or a plan, not both"):
        HierarchicalSoftmax(TREE, devices=CPUS, plan=PLAN)
    with pytest.raises(TypeError, match="plan must be a tf_hsm"):
        HierarchicalSoftmax(TREE, plan="CPU:0")
    with pytest.raises(ValueError, match="another tree"):
        HierarchicalSoftmax(tf_hsm.Tree.two_level(9), plan=PLAN)
    for make in (
        lambda **options: HierarchicalSoftmax(TREE, **options),
        make_adaptive,
    ):
        with pytest.raises(TypeError, match="devices must be a list"):
            make(devices="CPU:1")
        for name in ("GPU:7", "cuda:0", "/job:ps/task:0"):
            head = make(devices=["CPU:1", name])
            message = rf"devices\[1\] = '{name}' is not there"
            with pytest.raises(ValueError, match=message):
                head.build([None, WIDTH])


def test_a_model_that_is_a_subclass():
    """Keras makes its variables later, elsewhere: on their devices yet."""

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.head = HierarchicalSoftmax(TREE, plan=PLAN)

        def call(self, inputs):
            return self.head(inputs)

    model = Model()
    model.compile(OPTIMIZERS["adagrad"](), loss=model.head.loss)
    rng = np.random.default_rng(0)
    model.fit(
        rng.normal(size=(8, WIDTH)).astype("f4"),
        rng.integers(NUM_CLASSES, size=8),
        verbose=0,
    )
    for device, kernel in zip(CPUS, model.head.shard_kernels, strict=False):
        (slot,) = model.optimizer.slots(kernel)
        for variable in (kernel, slot):
            assert variable.value.device.endswith(device)


def test_shapes_that_do_not_fit():
    head = HierarchicalSoftmax(TREE, plan=PLAN)
    head.build([None, WIDTH])
    unknown = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[tf.TensorSpec([None, None, WIDTH]), unknown])
    def losses(inputs, labels):
        return head(inputs, labels)

    with pytest.raises(tf.errors.InvalidArgumentError, match="shape of inputs"):
        losses(tf.zeros([2, 3, WIDTH]), tf.zeros([3, 2], tf.int32))
    with pytest.raises(ValueError, match=r"\(2, 3, 1\), must have the shape"):
        head.log_prob(tf.zeros([2, 3, 1], tf.int32), tf.zeros([3, 2, WIDTH]))


def test_replicas_that_cannot_be():
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
        head = HierarchicalSoftmax(TREE, **options, dtype="float16")
        with pytest.raises(ValueError, match="in which small steps would be"):
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
