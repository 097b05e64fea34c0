"""A head that is cut over replicas trains as one on one device does."""

import functools
import itertools

import pytest
import tensorflow as tf

from tests.support import replicated_heads as heads
from tests.support.training import assert_near
from tests.support.update_rules import OPTIMIZERS
from tf_hsm.losses import HeadLoss
from tf_hsm.runtime.replicas import copies_of

# Each tree has one rule.
RULES = dict(zip(heads.TREES, itertools.cycle(OPTIMIZERS), strict=False))
RULES["flat"] = "lazy_adam"


@functools.cache
def expected(name):
    """The start of a head on one device, and what its training gives."""
    head = heads.make_head(name, RULES[name])
    return heads.start_of(head), heads.train(head, name)


@pytest.mark.parametrize(
    "name, count",
    [
        ("huffman", 1),
        ("huffman", 2),
        ("pinned", 2),
        ("two_level", 4),
        ("ternary", 8),
        ("chain", 4),
        ("flat", 2),
        ("ragged", 2),
    ],
)
def test_as_on_one_device(name, count):
    """Losses, gradients, weights and slots; replicas may have no example.

    Labels may all be in one shard, and shards may have no rows.
    """
    start, wanted = expected(name)
    head = heads.make_head(name, RULES[name], count)
    head.load_own_variables(start)
    assert_near(heads.train(head, name, count), wanted, 1e-13)
    heads.assert_copies_agree(head)


FOCAL = {"focal_gamma": 2.0, "class_weights": heads.COUNTS}


@pytest.mark.parametrize(
    "name, options, tolerance",
    [
        (
            "two_level",
            {"label_smoothing": 0.1, "smoothing_prior": heads.COUNTS},
            1e-13,
        ),
        ("two_level", FOCAL, 1e-13),
        # Three replicas have no shard.
        ("chain", FOCAL, 1e-13),
        ("two_level", {"use_bias": False}, 1e-13),
        ("two_level", {"dtype": "mixed_bfloat16"}, 2e-2),
    ],
)
def test_options(name, options, tolerance):
    one, several = (
        heads.make_head(name, "adagrad", count, **options)
        for count in (None, 4)
    )
    several.load_own_variables(heads.start_of(one))
    wanted = heads.train(one, name, steps=9)
    assert_near(heads.train(several, name, 4, steps=9), wanted, tolerance)


@pytest.mark.parametrize("count", [2, 4])
def test_several_heads(count):
    """The gradients of all exchanges travel back in one order.

    A replica without a shard of one head has other operations than the others.
    """
    one, several = (
        [heads.make_head(name, "sgd", c) for name in ("huffman", "chain")]
        for c in (None, count)
    )
    for head, other in zip(one, several, strict=True):
        other.load_own_variables(heads.start_of(head))
    strategy = heads.strategy_of(count)
    step = tf.function(_step_of_sum(one), autograph=False)
    on_replicas = tf.function(
        lambda *batch: strategy.run(_step_of_sum(several), batch),
        autograph=False,
    )
    for batch, _ in zip(heads.batches("chain"), range(4), strict=False):
        found = on_replicas(*(heads.split(strategy, x) for x in batch))
        found = [heads.joined(strategy, values) for values in found]
        assert_near(found, step(*map(tf.constant, batch)), 1e-13)
    assert_near([*map(heads.state, several)], [*map(heads.state, one)], 1e-13)


def _step_of_sum(several):
    """As `heads.step_of`, for the sum of the losses of heads."""
    losses_of = [HeadLoss(head, "none") for head in several]

    def step(inputs, labels, weights):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = tf.add_n(
                [f(labels, inputs, sample_weight=weights) for f in losses_of]
            )
        return losses, tape.gradient(losses, inputs)

    return step


def test_a_gradient_of_the_head_alone():
    """The losses' gradients travel, also from replicas without a shard."""
    one, several = (heads.make_head("chain", "sgd", c) for c in (None, 4))
    several.load_own_variables(heads.start_of(one))
    strategy = heads.strategy_of(4)

    def step_of(head):
        def step(inputs, labels, weights):
            with tf.GradientTape() as tape:
                losses = head.label_losses(labels, inputs) * weights
            tape.gradient(losses, head.trainable_variables)
            return losses

        return step

    on_replicas = tf.function(
        lambda *batch: strategy.run(step_of(several), batch), autograph=False
    )
    for batch, _ in zip(heads.batches("chain"), range(2), strict=False):
        losses = on_replicas(*(heads.split(strategy, x) for x in batch))
        wanted = step_of(one)(*map(tf.constant, batch))
        assert_near(heads.joined(strategy, losses), wanted, 1e-13)
    assert_near(heads.state(several), heads.state(one), 1e-13)


def test_where_variables_are():
    """Each replica has its shard and its slots, which have no copies."""
    head = heads.make_head("huffman", "lazy_adam", 4)
    for i, kernel in enumerate(head.shard_kernels):
        for variable in (kernel, *head.optimizer.slots(kernel)):
            (only,) = copies_of(variable)
            assert only.device.endswith(f"CPU:{i}")
    for variable in (head.kernel, *head.optimizer.slots(head.kernel)):
        assert len(copies_of(variable)) == 4


def test_what_each_replica_computes():
    """In its device's scope: the op of its shard, and its own of the top."""
    head = heads.make_head("huffman", "sgd", 4)
    strategy = heads.strategy_of(4)
    batch = [
        heads.split(strategy, values)
        for values in next(iter(heads.batches("huffman")))
    ]
    run = tf.function(lambda *x: strategy.run(heads.step_of(head), x))
    operations = run.get_concrete_function(*batch).graph.get_operations()
    devices = {
        kind: sorted(op.device[-1] for op in operations if op.type == kind)
        for kind in ("ResourceTfHsmLoss", "ResourceTfHsmLossStep")
    }
    assert list(devices.values()) == [list("00112233"), list("0123")]
