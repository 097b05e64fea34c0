"""Heads on devices, replicas or workers, beside the same ones on one device.

A head has the name of a tree, or of a form of an adaptive softmax. Its place is
None for one device, a list of devices, a number of replicas, or "workers".
"""

import contextlib
import functools
import itertools

import keras
import numpy as np
import tensorflow as tf

from tests.support.devices import CPUS
from tests.support.in_place_models import own_variables as saved
from tests.support.training import assert_same
from tests.support.trees import chain
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import Tree, distribute
from tf_hsm.layers import AdaptiveSoftmax, HierarchicalSoftmax
from tf_hsm.losses import HeadLoss
from tf_hsm.runtime import replicas

N, WIDTH, BATCH, STEPS = 60, 9, 12, 50
COUNTS = 1 / np.arange(1.0, N + 1)
# Not in the order of the classes.
TAIL_COUNTS = 1 / (1.0 + np.arange(N) * 7 % N)
TREES = {
    "huffman": lambda: Tree.huffman(COUNTS),
    "pinned": lambda: Tree.huffman(COUNTS, pinned=True),
    "two_level": lambda: Tree.two_level(N),
    "ternary": lambda: Tree.balanced(N, 3),
    "chain": lambda: chain(N - 1),
    "flat": lambda: Tree.balanced(N, N),
    "ragged": lambda: Tree.huffman(1 + np.arange(N) % 7, branching=5),
}
# Their plans are for a batch of 1: two replicas gather the touched rows of the
# top. All others sum all rows.
GATHERED = ("huffman", "ternary")
TAILS = {
    "three": {"cutoffs": [10, 20, 40], "tail": ["flat", "two_level", 2]},
    "one": {"cutoffs": [30], "tail": "two_level"},
    "none": {"cutoffs": []},
    # The rank of a class is the class; and a tail is as wide as the inputs.
    "wide": {"cutoffs": [10, 30], "div_value": 1, "counts": None},
}
# Each head has one rule.
RULES = {
    name: rule
    for names in (TREES, TAILS)
    for name, rule in zip(names, itertools.cycle(OPTIMIZERS), strict=False)
}
RULES["flat"] = "lazy_adam"
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


def has_strategy(place):
    """Whether a place is the replicas of a strategy."""
    return isinstance(place, int | str)


def scope_of(place):
    """The scope of the strategy of a place."""
    if has_strategy(place):
        return strategy_of(place).scope()
    return contextlib.nullcontext()


@functools.cache
def tree_named(name):
    """The tree, made once."""
    return TREES[name]()


def make_head(name, rule, place=None, seed=0, width=WIDTH, **options):
    """A built head at a place; with the rule None, without an optimizer."""
    keras.utils.set_random_seed(seed)
    options = {"ignore_class": -1, "dtype": "float64", **options}
    devices = "replicas" if has_strategy(place) else place
    with scope_of(place):
        options["optimizer"] = rule and OPTIMIZERS[rule]()
        if name in TAILS:
            form = {"div_value": 2, "counts": TAIL_COUNTS, **TAILS[name]}
            head = AdaptiveSoftmax(N, devices=devices, **form | options)
        else:
            tree = tree_named(name)
            if has_strategy(place):
                batch = 1 if name in GATHERED else None
                options["plan"] = distribute.plan(tree, 1, top=8, batch=batch)
                options["devices"] = devices
            elif devices:
                options["plan"] = distribute.plan(tree, devices, top=8)
            head = HierarchicalSoftmax(tree, **options)
        head.build([None, width])
    return head


def pair(name, rule, place, **options):
    """A head on one device, and one at a place with the same weights."""
    one = make_head(name, rule, None, **options)
    other = make_head(name, rule, place, seed=1, **options)
    other.load_own_variables(saved(one))
    return one, other


def parts_of(head):
    """The weights and biases of each part, the first part's first."""
    if hasattr(head, "projections"):
        first = head.head_kernel, head.head_bias
        others = head.tail_kernels, head.tail_biases
    else:
        first = head.kernel, head.bias
        others = head.shard_kernels, head.shard_biases
    return [first, *zip(*others, strict=True)]


def projections_of(head):
    """The projections of tails, which no head trains itself, a list."""
    return [p for p in getattr(head, "projections", []) if p is not None]


def trained_by_model(head):
    """The variables that the head does not train itself, a list."""
    rows = head.row_variables() if head.optimizer is None else []
    return [*projections_of(head), *rows]


def make_optimizer(head, place=None, rule="adagrad"):
    """The optimizer of a model, for what a head does not train itself."""
    with scope_of(place):
        optimizer = OPTIMIZERS[rule]()
        optimizer.build(trained_by_model(head))
    return optimizer


def batches(name):
    """Inputs, labels and loss weights of each step; -1 is ignored."""
    rng = np.random.default_rng(0)
    if name in TAILS:
        order = np.argsort(-TAIL_COUNTS, kind="stable")
    else:
        plan = distribute.plan(tree_named(name), 3, top=8)
        order = plan.layout.place_classes
    for step in range(STEPS):
        labels = rng.integers(-1, N, BATCH)
        if step % 3 == 1:
            # All in the first parts, or in the last one.
            labels = order[rng.integers(4, size=BATCH) - step % 2 * 5]
        if step == 5:
            labels[:] = -1
        inputs = rng.normal(size=(BATCH, WIDTH))
        yield inputs, labels, rng.uniform(size=BATCH) / BATCH


def step_of(head, optimizer=None):
    """A step of training: losses, and the gradient of the inputs.

    The optimizer of a model may be left out if it has nothing to train.
    """
    loss, trained = HeadLoss(head, "none"), trained_by_model(head)

    def step(inputs, labels, weights):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = loss(labels, head(inputs), sample_weight=weights)
        dx, *slopes = tape.gradient(
            losses, [inputs, *(v.value for v in trained)]
        )
        if trained:
            optimizer.apply(slopes, trained)
        return losses, dx

    return step


def runner(function, place=None):
    """A traced function of whole batches, run where a head is."""
    if not has_strategy(place):
        traced = tf.function(function, autograph=False)
        return lambda *batch: tf.nest.map_structure(
            np.asarray, traced(*map(tf.constant, batch))
        )
    strategy = strategy_of(place)
    traced = tf.function(
        lambda *batch: strategy.run(function, batch), autograph=False
    )

    def run(*batch):
        found = traced(*(split(strategy, values) for values in batch))
        return tf.nest.map_structure(functools.partial(joined, strategy), found)

    return run


def train(head, name, place=None, steps=STEPS, rule="adagrad"):
    """Trains by each batch, with the optimizer of a model by a rule.

    Returns:
        Losses and gradients of inputs for each step, and the state; of a head
        over workers, without the state.
    """
    optimizer = make_optimizer(head, place, rule)
    step = runner(step_of(head, optimizer), place)
    results = [step(*batch) for batch in itertools.islice(batches(name), steps)]
    return results if place == "workers" else (results, state(head, optimizer))


def sent_in_a_step(monkeypatch, name, count, dtype):
    """Counts the bytes that each replica sends to others in an eager step.

    Each replica has an equal part of the batch. The gradients of copies do not
    count.

    Returns:
        The bytes `[count]`, the head and the labels.
    """
    head = make_head(name, "sgd", count, dtype=dtype)
    inputs, labels, weights = next(batches(name))
    labels = np.maximum(labels, 0)
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
    batch = inputs.astype(dtype), labels, weights.astype(dtype)
    step = step_of(head, make_optimizer(head, count))
    strategy.run(step, tuple(split(strategy, values) for values in batch))
    return sent, head, labels


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


def state(head, *optimizers):
    """The weights and the slots of all rows in the order of the tree."""
    own = [] if head.optimizer is None else [head.optimizer]
    stores = map(saved, (head, *own, *optimizers))
    return [value for store in stores for value in store.values()]


def start_for_workers(head, folder):
    """What `load_start` gives the weights of a head to one over workers."""
    if hasattr(head, "projections"):
        return distribute.checkpoint(head).save(folder / "start")
    return saved(head)


def load_start(head, start):
    """Loads what `start_for_workers` returned."""
    if isinstance(start, dict):
        head.load_own_variables(start)
        return
    restored = distribute.checkpoint(head).restore(start)
    restored.assert_existing_objects_matched()


def assert_copies_agree(head):
    """Asserts that what has copies on replicas has the same bits everywhere."""
    first, *_ = parts_of(head)
    shared = [*first, *projections_of(head), *head.optimizer.slots(first[0])]
    for variable in shared:
        first, *others = (copy.numpy() for copy in replicas.copies_of(variable))
        assert_same(others, [first] * len(others))
