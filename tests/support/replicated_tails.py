"""Adaptive softmaxes over replicas, beside the same ones on one device."""

import keras
import numpy as np
import tensorflow as tf

from tests.support import replicated_heads as heads
from tests.support.update_rules import OPTIMIZERS
from tf_hsm.layers import AdaptiveSoftmax
from tf_hsm.losses import HeadLoss

N, WIDTH, STEPS = heads.N, 8, heads.STEPS
# Not in the order of the classes.
COUNTS = 1 / (1.0 + np.arange(N) * 7 % N)
FORMS = {
    "three": {"cutoffs": [10, 20, 40], "tail": ["flat", "two_level", 2]},
    "one": {"cutoffs": [30], "tail": "two_level"},
    "none": {"cutoffs": []},
    # The rank of a class is the class; and a tail is as wide as the inputs.
    "wide": {"cutoffs": [10, 30], "div_value": 1, "counts": None},
}


def make_head(form, rule, count=None, seed=0, **options):
    """A built head over `count` replicas, or on one device."""
    keras.utils.set_random_seed(seed)
    options = {
        "div_value": 2,
        "counts": COUNTS,
        "ignore_class": -1,
        "dtype": "float64",
        **FORMS[form],
        **options,
    }
    strategy = tf.distribute.get_strategy()
    if count is not None:
        options["devices"] = "replicas"
        strategy = heads.strategy_of(count)
    with strategy.scope():
        head = AdaptiveSoftmax(N, optimizer=OPTIMIZERS[rule](), **options)
        head.build([None, WIDTH])
    return head


def projections_of(head):
    """The variables that the optimizer of a model trains, a list."""
    return [p for p in head.projections if p is not None]


def make_optimizer(head, count=None):
    """The optimizer of a model."""
    strategy = tf.distribute.get_strategy()
    if count is not None:
        strategy = heads.strategy_of(count)
    with strategy.scope():
        optimizer = OPTIMIZERS["adagrad"]()
        optimizer.build(projections_of(head))
    return optimizer


def batches():
    """Inputs, labels and loss weights of each step; -1 is ignored."""
    rng = np.random.default_rng(0)
    by_rank = np.argsort(-COUNTS, kind="stable")
    for step in range(STEPS):
        labels = rng.integers(-1, N, heads.BATCH)
        if step % 3 == 1:
            # All in the shortlist, or in the last tail.
            labels = by_rank[rng.integers(5, size=heads.BATCH) - step % 2 * 5]
        if step == 5:
            labels[:] = -1
        inputs = rng.normal(size=(heads.BATCH, WIDTH))
        weights = rng.uniform(size=heads.BATCH) / heads.BATCH
        yield inputs, labels, weights


def step_of(head, optimizer):
    """A step of training: losses, and the gradient of the inputs."""
    loss = HeadLoss(head, "none")
    trained = projections_of(head)

    def step(inputs, labels, weights):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = loss(labels, head(inputs), sample_weight=weights)
        dx, *slopes = tape.gradient(
            losses, [inputs, *[p.value for p in trained]]
        )
        if trained:
            optimizer.apply(slopes, trained)
        return losses, dx

    return step


def train(head, count=None, steps=STEPS):
    """Trains by each batch.

    Returns:
        Losses and gradients of inputs for each step, and the state; of a head
        over workers, without the state.
    """
    optimizer = make_optimizer(head, count)
    step = tf.function(step_of(head, optimizer), autograph=False)
    results = []
    if count is not None:
        strategy = heads.strategy_of(count)
        on_replicas = tf.function(
            lambda *batch: strategy.run(step_of(head, optimizer), batch),
            autograph=False,
        )
    for batch, _ in zip(batches(), range(steps), strict=False):
        if count is None:
            found = [x.numpy() for x in step(*map(tf.constant, batch))]
        else:
            found = on_replicas(*(heads.split(strategy, x) for x in batch))
            found = [heads.joined(strategy, values) for values in found]
        results.append(found)
    if count == "workers":
        return results
    return results, heads.state(head), [v.numpy() for v in optimizer.variables]
