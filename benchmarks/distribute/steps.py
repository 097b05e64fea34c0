"""The steps that are compared: heads, what they train on, and their labels."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import workloads

# How labels are drawn: of all classes evenly; by zipf, where the plan knows
# the counts; evenly of the classes of the first device of the most devices; or
# of the classes of the next device for the part of a batch of each.
LABELS = ("uniform", "zipf", "one_shard", "shard_of_next")


class Sizes(NamedTuple):
    """What a head and a batch have."""

    classes: int
    width: int
    batch: int

    @property
    def tree(self):
        """A two_level tree."""
        return tf_hsm.Tree.two_level(self.classes)

    def inputs(self):
        """`[batch, width]`, the same ones each time."""
        rng = np.random.default_rng(0)
        return tf.constant(rng.normal(size=(self.batch, self.width)), "float32")


def make_head(tree, width, plan=None):
    """Returns a built `HierarchicalSoftmax`, which makes its steps in place."""
    head = tf_hsm.layers.HierarchicalSoftmax(
        tree, plan=plan, optimizer="rowwise_adagrad"
    )
    head.build([None, width])
    return head


def make_step(head, sizes):
    """Returns a function of inputs and labels, traced.

    It makes the losses and the gradient of the inputs, and updates the head.
    """

    @tf.function
    def step(inputs, labels):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = head.label_losses(labels, inputs)
            total = tf.reduce_mean(losses)
        return losses, tape.gradient(total, inputs)

    return step.get_concrete_function(
        tf.TensorSpec([sizes.batch, sizes.width], tf.float32),
        tf.TensorSpec([sizes.batch], tf.int64),
    )


def counts_of(kind, tree):
    """What the plan is told of how often classes occur."""
    return workloads.zipf_counts(tree.num_classes) if kind == "zipf" else None


def draw_labels(kind, plan, number, batch):
    """Draws `[number, batch]` int64 labels of a kind of `LABELS`."""
    rng = np.random.default_rng(1)
    shape = (number, batch)
    if kind == "uniform":
        return rng.integers(plan.tree.num_classes, size=shape)
    if kind in ("one_shard", "shard_of_next"):
        shards = plan.shards[:1]
        if kind == "shard_of_next":
            shards = [*plan.shards[1:], *shards]
        of_examples = np.arange(batch) * len(shards) // batch
        first, count = (
            np.array([getattr(shard, name) for shard in shards])[of_examples]
            for name in ("first_place", "num_classes")
        )
        return plan.layout.place_classes[
            first + rng.integers(count, size=shape)
        ]
    return workloads.draw_zipf(rng, plan.tree.num_classes, shape)


def units_of(plan, labels):
    """The unit of each label: its class in the top."""
    places = plan.layout.class_places[labels]
    return np.searchsorted(plan.layout.unit_places[1:], places, side="right")


def shards_of(plan, labels):
    """The number of the shard of each label."""
    return np.searchsorted(
        plan.layout.first_units[1:], units_of(plan, labels), side="right"
    )


def fullest(plan, labels):
    """The share of a batch that the fullest shard gets, in the mean."""
    shards, number = shards_of(plan, labels), len(plan.devices)
    shares = [np.bincount(row, minlength=number).max() for row in shards]
    return float(np.mean(shares)) / labels.shape[1]
