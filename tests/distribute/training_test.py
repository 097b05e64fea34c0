"""A head on devices or replicas trains as one on one device does."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import spread_heads as heads
from tests.support.devices import CPUS
from tests.support.training import assert_near
from tf_hsm import Tree, distribute
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.losses import HeadLoss
from tf_hsm.optimizers import SGD, _sparse_update
from tf_hsm.runtime.replicas import copies_of


@functools.cache
def expected(name):
    """The start of a head on one device, and what its training gives."""
    head = heads.make_head(name, heads.RULES[name])
    return heads.saved(head), heads.train(head, name)


# By the head: lists of devices, and numbers of replicas.
PLACES = {
    "huffman": [CPUS[:1], CPUS[:2], CPUS, 1, 2],
    "pinned": [CPUS[:3], 2],
    "two_level": [CPUS, 4],
    "ternary": [CPUS[:3], 2, 8],
    "chain": [CPUS, 4],
    "flat": [CPUS[:3], 2],
    "ragged": [CPUS, 2],
    "three": [CPUS[:2], 1, 2, 4, 8],
    "one": [4],
    "none": [2],
    "wide": [2],
}


@pytest.mark.parametrize(
    "name, place",
    [(name, place) for name, places in PLACES.items() for place in places],
)
def test_as_on_one_device(name, place):
    """Losses, gradients, weights and slots; replicas may have no example.

    Labels may all be in one part, and devices may have no rows or several
    tails.
    """
    start, wanted = expected(name)
    head = heads.make_head(name, heads.RULES[name], place, seed=1)
    head.load_own_variables(start)
    assert_near(heads.train(head, name, place), wanted, 1e-13)
    if heads.has_strategy(place):
        heads.assert_copies_agree(head)


FOCAL = {"focal_gamma": 2.0, "class_weights": heads.COUNTS}


SMOOTHED = {"label_smoothing": 0.1, "smoothing_prior": heads.COUNTS}
TAILS_SMOOTHED = {**SMOOTHED, "smoothing_prior": heads.TAIL_COUNTS}
BFLOAT16 = {"dtype": "mixed_bfloat16"}


@pytest.mark.parametrize(
    "name, options",
    [
        ("two_level", SMOOTHED),
        ("three", TAILS_SMOOTHED),
        # Three replicas of a chain have no shard.
        *((name, FOCAL) for name in ("two_level", "chain", "three")),
        ("two_level", {"use_bias": False}),
        ("three", {"use_bias": "head"}),
        ("two_level", BFLOAT16),
        ("three", BFLOAT16),
    ],
)
def test_options(name, options):
    one, several = heads.pair(name, "adagrad", 4, **options)
    wanted = heads.train(one, name, steps=9)
    tolerance = 2e-2 if options is BFLOAT16 else 1e-13
    assert_near(heads.train(several, name, 4, steps=9), wanted, tolerance)


@pytest.mark.parametrize(
    "name, rule, count",
    [
        ("two_level", "lazy_adam", 4),
        ("ternary", "sgd", 2),  # It gathers the touched rows of the top.
        ("three", "rowwise_adagrad", 4),
    ],
)
def test_bfloat16_weights(name, rule, count):
    """As on one device but for the rounding, and the copies agree."""
    one, several = heads.pair(name, rule, count, dtype="bfloat16")
    wanted = heads.train(one, name, steps=9)
    assert_near(heads.train(several, name, count, steps=9), wanted, 5e-2)
    heads.assert_copies_agree(several)


@pytest.mark.parametrize("batch", [1, None], ids=["gathered", "summed"])
@pytest.mark.parametrize("by_op", [True, False])
def test_small_bfloat16_steps_of_copies_are_not_lost(monkeypatch, batch, by_op):
    """They are right in the mean, by the op for CPUs and by TensorFlow's."""
    if not by_op:
        monkeypatch.setattr(_sparse_update, "is_possible", lambda *_: False)
    tree = Tree.balanced(64, 8)
    with heads.scope_of(2):
        head = HierarchicalSoftmax(
            tree,
            plan=distribute.plan(tree, 2, top=8, batch=batch),
            devices="replicas",
            optimizer=SGD(0.01),
            dtype="bfloat16",
        )
        head.build([None, 40])
    for kernel in (head.kernel, *head.shard_kernels):
        kernel.assign(tf.ones_like(kernel))
    step = heads.runner(heads.step_of(head), 2)
    # The first class of each shard: the two have the same gradients.
    firsts = [shard.first_place for shard in head.plan.shards]
    labels = np.tile(head.plan.layout.place_classes[firsts], heads.BATCH // 2)
    inputs = np.ones((heads.BATCH, 40), "f4")
    step(inputs, labels, np.full(heads.BATCH, 1 / heads.BATCH, "f4"))
    heads.assert_copies_agree(head)
    # Half of the distance from 1 to the number below is 0.002.
    change = np.sort(head.kernel.numpy().astype("f8").mean(1) - 1)
    exact = 0.01 * ((np.arange(8) > 5) / 2 - 1 / 8)
    np.testing.assert_allclose(change, exact, atol=1e-3)
    assert abs(change[:6].mean() - exact[0]) < 4e-4
    one, other = (kernel.numpy() for kernel in head.shard_kernels)
    assert (one != other).any()


@pytest.mark.parametrize(
    "name, rule",
    [
        ("two_level", "adagrad"),
        ("pinned", "rowwise_adagrad"),
        ("huffman", "rmsprop"),
        ("flat", "lion"),
        ("three", "lazy_adam"),
    ],
)
def test_with_the_optimizer_of_a_model(name, rule):
    one, several = heads.pair(name, None, CPUS[:3])
    wanted = heads.train(one, name, rule=rule)
    assert_near(heads.train(several, name, rule=rule), wanted, 1e-12)


@pytest.mark.parametrize("count", [2, 4])
def test_several_heads(count):
    """The gradients of all exchanges travel back in one order.

    A replica without a shard of one head has other operations than the others.
    """

    def step_of_sum(several):
        losses_of = [HeadLoss(head, "none") for head in several]

        def step(inputs, labels, weights):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                losses = tf.add_n(
                    [
                        f(labels, inputs, sample_weight=weights)
                        for f in losses_of
                    ]
                )
            return losses, tape.gradient(losses, inputs)

        return step

    check_steps(["huffman", "chain"], count, step_of_sum, 4)


def test_a_gradient_of_the_head_alone():
    """The losses' gradients travel, also from replicas without a shard."""

    def step_of(several):
        (head,) = several

        def step(inputs, labels, weights):
            with tf.GradientTape() as tape:
                losses = head.label_losses(labels, inputs) * weights
            tape.gradient(losses, head.trainable_variables)
            return losses

        return step

    check_steps(["chain"], 4, step_of, 2)


def check_steps(names, count, step_of, num_steps):
    """Several heads over replicas step as on one device."""
    pairs = [heads.pair(name, "sgd", count) for name in names]
    one, several = map(list, zip(*pairs, strict=True))
    on_one = heads.runner(step_of(one))
    on_replicas = heads.runner(step_of(several), count)
    batches = heads.batches("chain")
    for batch, _ in zip(batches, range(num_steps), strict=False):
        assert_near(on_replicas(*batch), on_one(*batch), 1e-13)
    assert_near([*map(heads.state, several)], [*map(heads.state, one)], 1e-13)


@pytest.mark.parametrize(
    "name, place, numbers",
    [("huffman", 4, [0, 1, 2, 3]), ("three", 2, [0, 1, 0])],
)
def test_where_variables_are(name, place, numbers):
    """Each part and its slots are on one replica alone."""
    head = heads.make_head(name, "lazy_adam", place)
    slots = head.optimizer.slots
    first, *others = heads.parts_of(head)
    for pair, number in zip(others, numbers, strict=True):
        for variable in (*pair, *(slot for v in pair for slot in slots(v))):
            (only,) = copies_of(variable)
            assert only.device.endswith(f"CPU:{number}")
    shared = [*first, *slots(first[0]), *heads.projections_of(head)]
    assert all(len(copies_of(variable)) == place for variable in shared)


@pytest.mark.parametrize(
    "name, count, losses, steps",
    [("huffman", 4, "00112233", "0123"), ("three", 2, "00011", "001")],
)
def test_what_each_replica_computes(name, count, losses, steps):
    """In its device's scope: the ops of its parts, and its own of the first."""
    head = heads.make_head(name, "sgd", count)
    strategy = heads.strategy_of(count)
    batch = [heads.split(strategy, x) for x in next(heads.batches(name))]
    step = heads.step_of(head, heads.make_optimizer(head, count))
    run = tf.function(lambda *x: strategy.run(step, x), autograph=False)
    operations = run.get_concrete_function(*batch).graph.get_operations()
    for kind, devices in (
        ("ResourceTfHsmLoss", losses),
        ("ResourceTfHsmLossStep", steps),
    ):
        found = sorted(op.device[-1] for op in operations if op.type == kind)
        assert "".join(found) == devices


def test_penalties_of_pinned_trees():
    """Regularizers see each touched row of weights once."""
    labels = np.array([0, 7, 7, 50, -1])
    inputs = np.random.default_rng(2).normal(size=(5, heads.WIDTH))
    options = {"kernel_regularizer": "l2", "bias_regularizer": "l1"}
    one, several = (
        heads.make_head("pinned", None, place, **options)
        for place in (None, CPUS[:3])
    )
    one.bias.assign(np.random.default_rng(3).normal(size=one.bias.shape))
    distribute.copy_weights(one, several)
    totals = []
    for head in (one, several):
        head(inputs, labels)
        totals.append(float(tf.add_n(head.losses)))
    assert_near(*totals, 1e-12)
