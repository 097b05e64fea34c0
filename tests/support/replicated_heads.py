"""Heads that are cut over replicas, beside the same ones on one device."""

import functools
import itertools

import numpy as np
import tensorflow as tf

from tests.support.devices import CPUS
from tests.support.training import assert_near, assert_same
from tests.support.trees import chain
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import Tree, distribute
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.losses import HeadLoss
from tf_hsm.runtime import replicas

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
# How many examples of a batch each replica has.
SIZES = {
    1: [12],
    2: [8, 4],
    4: [6, 3, 0, 3],
    8: [4, 0, 2, 1, 2, 1, 2, 0],
}


@functools.cache
def strategy_of(count):
    """The strategy of so many replicas; of all "workers".

    A process has one group of collectives: that of two replicas.
    """
    if count == "workers":
        return tf.distribute.MultiWorkerMirroredStrategy()
    sums = None if count == 2 else tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(CPUS[:count], cross_device_ops=sums)


@functools.cache
def tree_named(name):
    """The tree, made once."""
    return TREES[name]()


def make_head(name, rule, count=None, **options):
    """A built head over `count` replicas, or on one device."""
    tree = tree_named(name)
    options = {"ignore_class": -1, "dtype": "float64", **options}
    if count is None:
        head = HierarchicalSoftmax(
            tree, optimizer=OPTIMIZERS[rule](), **options
        )
        head.build([None, WIDTH])
        return head
    plan = distribute.plan(tree, 1, top=8)
    with strategy_of(count).scope():
        head = HierarchicalSoftmax(
            tree,
            devices="replicas",
            plan=plan,
            optimizer=OPTIMIZERS[rule](),
            **options,
        )
        head.build([None, WIDTH])
    return head


def batches(name):
    """Inputs, labels and loss weights of each step; -1 is ignored."""
    tree = tree_named(name)
    rng = np.random.default_rng(0)
    place_classes = distribute.plan(tree, 3, top=8).layout.place_classes
    for step in range(STEPS):
        labels = rng.integers(-1, N, BATCH)
        if step % 3 == 1:
            # All in the first shards, or in the last one.
            labels = place_classes[rng.integers(4, size=BATCH) - step % 2 * 5]
        if step == 5:
            labels[:] = -1
        inputs = rng.normal(size=(BATCH, WIDTH))
        yield inputs, labels, rng.uniform(size=BATCH) / BATCH


def step_of(head):
    """A step of training: losses, and the gradient of the inputs."""
    loss = HeadLoss(head, "none")

    def step(inputs, labels, weights):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = loss(labels, head(inputs), sample_weight=weights)
        return losses, tape.gradient(losses, inputs)

    return step


def train(head, name, count=None, steps=STEPS):
    """Trains by each batch.

    Returns:
        Losses and gradients of inputs for each step, and the state; of a head
        over workers, without the state.
    """
    step = tf.function(step_of(head), autograph=False)
    results = []
    if count is None:
        for batch in itertools.islice(batches(name), steps):
            results.append([x.numpy() for x in step(*map(tf.constant, batch))])
        return results, state(head)
    strategy = strategy_of(count)
    on_replicas = tf.function(
        lambda *batch: strategy.run(step_of(head), batch), autograph=False
    )
    for batch in itertools.islice(batches(name), steps):
        found = on_replicas(*(split(strategy, values) for values in batch))
        results.append([joined(strategy, values) for values in found])
    return results if count == "workers" else (results, state(head))


def sent_in_a_step(monkeypatch, count, step, batch):
    """Returns the bytes `[count]` that each replica sends to others.

    The step runs eagerly, and each replica has an equal part of the batch. The
    gradients of copies do not count.
    """
    monkeypatch.setitem(SIZES, count, [BATCH // count] * count)
    sent = np.zeros(count)
    by_sender = replicas._by_sender

    def counted(strategy, *parts):
        rows = by_sender(strategy, *parts)
        for sender, row in enumerate(rows):
            for i, part in enumerate(row):
                sent[sender] += part.numpy().nbytes * (i % count != sender)
        return rows

    monkeypatch.setattr(replicas, "_by_sender", counted)
    strategy = strategy_of(count)
    strategy.run(step, tuple(split(strategy, values) for values in batch))
    return sent


def split(strategy, values):
    """A batch as what each replica of this process has of it."""
    sizes = SIZES[strategy.num_replicas_in_sync]
    parts = np.split(values, np.cumsum(sizes)[:-1])
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group])
    )


def joined(strategy, values):
    """What the replicas of this process have as one array."""
    parts = strategy.experimental_local_results(values)
    return np.concatenate([part.numpy() for part in parts])


def state(head, optimizer=None):
    """The weights, and the slots, of all rows in the order of the tree.

    The slots are in the head's own optimizer, if no other one is given.
    """
    store, slots = {}, {}
    head.save_own_variables(store)
    (optimizer or head.optimizer).save_own_variables(slots)
    return [np.array(v) for v in (*store.values(), *slots.values())]


def start_of(head):
    """What `load_own_variables` of another head takes."""
    store = {}
    head.save_own_variables(store)
    return {key: np.array(value) for key, value in store.items()}


def assert_copies_agree(head):
    """Asserts that what has copies on replicas has the same bits everywhere."""
    if hasattr(head, "projections"):
        shared = [head.head_kernel, head.head_bias]
        shared += [p for p in head.projections if p is not None]
    else:
        shared = [head.kernel, head.bias]
    shared += head.optimizer.slots(shared[0])
    for variable in shared:
        first, *others = (copy.numpy() for copy in replicas.copies_of(variable))
        assert_same(others, [first] * len(others))


def assert_answers(questions, head, one, width):
    """Asserts that a head over 2 replicas answers as one on one device.

    The questions come from outside the strategy, its scope, and a replica.

    Args:
        questions: Functions of a head and inputs.
        head: The head over the replicas.
        one: The head on one device, with the same weights.
        width: The width of the inputs.
    """
    inputs = np.random.default_rng(0).normal(size=(8, width))

    def ask(head, x):
        return [question(head, x) for question in questions]

    wanted = [ask(one, inputs[:4]), ask(one, inputs[4:])]
    assert_near(ask(head, inputs[:4]), wanted[0], 1e-12)
    strategy = strategy_of(2)
    with strategy.scope():
        assert_near(ask(head, inputs[:4]), wanted[0], 1e-12)

    @tf.function
    def on_replicas():
        def of_replica():
            replica = tf.distribute.get_replica_context()
            i = replica.replica_id_in_sync_group
            return ask(head, tf.constant(inputs.reshape(2, 4, -1))[i])

        return strategy.run(of_replica)

    found = on_replicas()
    for values, *each in zip(
        tf.nest.flatten(found), *map(tf.nest.flatten, wanted), strict=True
    ):
        assert_near(strategy.experimental_local_results(values), each, 1e-12)
