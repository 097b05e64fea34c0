"""`fit`, `evaluate` and `predict` of models whose head is cut over devices."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.devices import CPUS
from tests.support.in_place_models import (
    FORMS,
    arguments,
    fit,
    layers_of,
    make_model,
    random_weights,
)
from tests.support.models import NUM_CLASSES, TREE, WIDTH, head_of, make_data
from tests.support.pairs import all_pairs
from tests.support.training import assert_near, layer_step
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import distribute
from tf_hsm.layers import HierarchicalSoftmax

PLAN = distribute.plan(TREE, CPUS[:3], top=6)


def pair(form, **options):
    """A model on one device, and one with a plan that starts as it does.

    The first runs eagerly: a few steps take less time than their graph.
    """
    one, several = (make_model(form, plan=p, **options) for p in (None, PLAN))
    one.run_eagerly = True
    for mine, other in zip(layers_of(several), layers_of(one), strict=True):
        if isinstance(mine, HierarchicalSoftmax):
            distribute.copy_weights(other, mine)
        else:
            mine.set_weights(other.get_weights())
    return one, several


def rows(model):
    """The weights of all layers, the head's as those of one device."""
    arrays = []
    for layer in layers_of(model):
        store = {}
        layer.save_own_variables(store)
        arrays += [np.asarray(v, np.float64) for v in store.values()]
    return arrays


def assert_fits_alike(form, data, tolerance, eagerly=False, **options):
    one, several = pair(form, **options)
    several.run_eagerly = eagerly
    losses = [fit(model, data) for model in (one, several)]
    assert losses[0][-1] < losses[0][0]
    assert_near(*losses, tolerance)
    assert_near(rows(several), rows(one), tolerance)
    results = [m.evaluate(**data, verbose=0) for m in (one, several)]
    assert_near(*results, tolerance)
    return one, several


@pytest.mark.parametrize(
    "form, own, counts",
    all_pairs(FORMS, [True, False], [(True, -1, True), (False, 3, False)]),
)
def test_what_counts(form, own, counts):
    mask_zero, ignore_class, weighted = counts
    tokens, labels = make_data(seed=3)
    if ignore_class == -1:
        labels[:, 1] = -1
    given = random_weights() if weighted else None
    data = arguments(form, tokens, labels, given)
    one, several = assert_fits_alike(
        form,
        data,
        1e-5,
        own=own,
        mask_zero=mask_zero,
        ignore_class=ignore_class,
        weighted=weighted,
    )
    if form == "compile":
        classes = [
            head_of(m).predict_class(m.predict(tokens, verbose=0))
            for m in (one, several)
        ]
        np.testing.assert_array_equal(*classes)


@pytest.mark.parametrize(
    "policy, eagerly", [("mixed_bfloat16", True), ("mixed_float16", False)]
)
def test_mixed_precision(policy, eagerly):
    data = arguments("compile", *make_data())
    _, several = assert_fits_alike("compile", data, 2e-2, eagerly, dtype=policy)
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
        "compile",
        data,
        1e-5,
        own=False,
        kernel_regularizer="l2",
        bias_regularizer="l1",
        kernel_constraint=keras.constraints.UnitNorm(axis=1),
    )


@pytest.mark.parametrize("eager", [True, False])
def test_a_label_that_is_no_class(eager):
    tokens, labels = make_data()
    labels[2, 3] = NUM_CLASSES
    model = make_model("compile", plan=PLAN, mask_zero=False)
    before = rows(model)
    model.run_eagerly = eager
    sentence = rf"labels\[13\] = {NUM_CLASSES} is outside \[0, {NUM_CLASSES}\)"
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        model.train_on_batch(tokens, labels)
    assert_near(rows(model)[-2:], before[-2:], 0)


def test_counts_and_starts():
    """Biases from counts; weights on the scale of all rows together."""
    counts = 1 / np.arange(1.0, 20_001)
    tree = tf_hsm.Tree.two_level(counts.size)
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
    np.testing.assert_array_equal(*biases)
    np.testing.assert_allclose(*scales, rtol=0.02)


def test_bad_arguments():
    with pytest.raises(ValueError, match="devices or a plan, not both"):
        HierarchicalSoftmax(TREE, devices=CPUS, plan=PLAN)
    with pytest.raises(TypeError, match="plan must be a tf_hsm"):
        HierarchicalSoftmax(TREE, plan="CPU:0")
    with pytest.raises(ValueError, match="another tree"):
        HierarchicalSoftmax(tf_hsm.Tree.two_level(9), plan=PLAN)
    for name in ("GPU:7", "cuda:0", "/job:ps/task:0"):
        head = HierarchicalSoftmax(TREE, devices=[name])
        with pytest.raises(
            ValueError, match=rf"devices\[0\] = '{name}' is not"
        ):
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
