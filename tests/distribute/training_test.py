"""A head cut over devices trains as one on one device does."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.support.devices import CPUS
from tests.support.training import assert_near
from tests.support.trees import chain
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import Tree, distribute
from tf_hsm.layers import HierarchicalSoftmax

N, WIDTH, BATCH, STEPS = 60, 5, 12, 50
COUNTS = 1 / np.arange(1.0, N + 1)
TREES = {
    "huffman": lambda: Tree.huffman(COUNTS),
    "pinned": lambda: Tree.huffman(COUNTS, pinned=True),
    "two_level": lambda: Tree.two_level(N),
    "ternary": lambda: Tree.balanced(N, 3),
    "chain": lambda: chain(N - 1),
    "flat": lambda: Tree.balanced(N, N),
    "ragged": lambda: Tree.huffman(1 + np.arange(N) % 7, branching=5),
}


@functools.cache
def tree_named(name):
    return TREES[name]()


def make_head(tree, count=None, **options):
    """A built head, on `count` devices or without a plan."""
    if count is not None:
        options["plan"] = distribute.plan(tree, CPUS[:count], top=8)
    head = HierarchicalSoftmax(tree, dtype="float64", **options)
    head.build([None, WIDTH])
    return head


def batches(tree, kind):
    """Inputs, labels and loss weights of each step; -1 is ignored."""
    rng = np.random.default_rng(0)
    place_classes = distribute.plan(tree, CPUS[:3], top=8).layout.place_classes
    for step in range(STEPS):
        labels = rng.integers(-1, tree.num_classes, BATCH)
        if kind == "mixed" and step % 3 == 1:
            # All in the first shards, or in the last one.
            labels = place_classes[rng.integers(4, size=BATCH) - step % 2 * 5]
        if kind == "mixed" and step == 5:
            labels[:] = -1
        inputs = rng.normal(size=(BATCH, WIDTH))
        yield inputs, labels, rng.uniform(size=BATCH) / BATCH


def train(head, own, rule):
    """Trains by each batch; returns losses, gradients of inputs, the state."""
    optimizer = head.optimizer
    if not own:
        optimizer = OPTIMIZERS[rule]()
        optimizer.build(head.row_variables())

    @tf.function
    def step(inputs, labels, weights):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = head(inputs, labels, sample_weight=weights)
            total = tf.add_n(head.losses)
        variables = [] if own else head.row_variables()
        dx, *gradients = tape.gradient(total, [inputs, *variables])
        if not own:
            optimizer.apply(gradients, variables)
        return losses, dx

    results = [
        [x.numpy() for x in step(*map(tf.constant, batch))]
        for batch in batches(head.tree, "mixed")
    ]
    return results, state(head, optimizer)


def state(head, optimizer):
    """The weights, and the slots, of all rows in the order of the tree."""
    store, slots = {}, {}
    head.save_own_variables(store)
    optimizer.save_own_variables(slots)
    return [np.array(v) for v in (*store.values(), *slots.values())]


@functools.cache
def expected(name, rule, own):
    head = make_head(tree_named(name), **options_of(rule, own))
    start = {}
    head.save_own_variables(start)
    start = {key: np.array(value) for key, value in start.items()}
    return start, train(head, own, rule)


def options_of(rule, own):
    return {
        "ignore_class": -1,
        "optimizer": OPTIMIZERS[rule]() if own else None,
    }


# Each tree has one rule, and each rule both numbers of devices below.
RULES = dict(zip(TREES, itertools.cycle(OPTIMIZERS), strict=False))
RULES["flat"] = "lazy_adam"


@pytest.mark.parametrize(
    "name, count",
    [("huffman", 1), ("huffman", 2), *((n, c) for n in TREES for c in (3, 8))],
)
def test_as_on_one_device(name, count):
    """Losses, gradients, weights and slots; also where shards are empty."""
    rule = RULES[name]
    start, wanted = expected(name, rule, own=True)
    head = make_head(tree_named(name), count, **options_of(rule, True))
    head.load_own_variables(start)
    assert_near(train(head, True, rule), wanted, 1e-12)


@pytest.mark.parametrize(
    "name, rule",
    [
        *zip(
            ["huffman", "two_level", "pinned", "pinned", "huffman", "flat"],
            OPTIMIZERS,
            strict=True,
        )
    ],
)
def test_with_the_optimizer_of_a_model(name, rule):
    start, wanted = expected(name, rule, own=False)
    head = make_head(tree_named(name), 3, **options_of(rule, False))
    head.load_own_variables(start)
    assert_near(train(head, False, rule), wanted, 1e-12)
