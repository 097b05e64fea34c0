"""A head cut over devices trains as one on one device does."""

import functools
import itertools

import pytest
import tensorflow as tf

from tests.support import replicated_heads as heads
from tests.support.devices import CPUS
from tests.support.training import assert_near
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import distribute
from tf_hsm.layers import HierarchicalSoftmax


def make_head(name, rule, count=None):
    """A built head, on `count` devices or without a plan; None: no rule."""
    tree, plan = heads.tree_named(name), None
    if count is not None:
        plan = distribute.plan(tree, CPUS[:count], top=8)
    optimizer = rule and OPTIMIZERS[rule]()
    head = HierarchicalSoftmax(
        tree, plan=plan, optimizer=optimizer, ignore_class=-1, dtype="float64"
    )
    head.build([None, heads.WIDTH])
    return head


def train(head, name, optimizer=None):
    """Trains by each batch; returns losses, gradients of inputs, the state.

    `optimizer` is the optimizer of a model; None: the head has its own.
    """
    variables = []
    if optimizer is not None:
        variables = head.row_variables()
        optimizer.build(variables)

    @tf.function
    def step(inputs, labels, weights):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = head(inputs, labels, sample_weight=weights)
            total = tf.add_n(head.losses)
        dx, *gradients = tape.gradient(total, [inputs, *variables])
        if optimizer is not None:
            optimizer.apply(gradients, variables)
        return losses, dx

    results = [
        [x.numpy() for x in step(*map(tf.constant, batch))]
        for batch in heads.batches(name)
    ]
    return results, heads.state(head, optimizer)


@functools.cache
def expected(name, rule):
    """The start of a head on one device, and what its training gives."""
    head = make_head(name, rule)
    return heads.start_of(head), train(head, name)


# Each tree has one rule.
RULES = dict(zip(heads.TREES, itertools.cycle(OPTIMIZERS), strict=False))
RULES["flat"] = "lazy_adam"


@pytest.mark.parametrize(
    "name, count",
    [
        ("huffman", 1),
        ("huffman", 2),
        *zip(heads.TREES, itertools.cycle([8, 3]), strict=False),
    ],
)
def test_as_on_one_device(name, count):
    """Losses, gradients, weights and slots; also where shards are empty."""
    start, wanted = expected(name, RULES[name])
    head = make_head(name, RULES[name], count)
    head.load_own_variables(start)
    assert_near(train(head, name), wanted, 1e-12)


@pytest.mark.parametrize(
    "name, rule",
    [
        ("two_level", "adagrad"),
        ("pinned", "rowwise_adagrad"),
        ("huffman", "rmsprop"),
        ("flat", "lion"),
    ],
)
def test_with_the_optimizer_of_a_model(name, rule):
    one, several = make_head(name, None), make_head(name, None, 3)
    several.load_own_variables(heads.start_of(one))
    results = [train(h, name, OPTIMIZERS[rule]()) for h in (several, one)]
    assert_near(*results, 1e-12)
