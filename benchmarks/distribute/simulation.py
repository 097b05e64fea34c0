"""Simulates steps of a plan: the work of each device, and how long it waits."""

from typing import Any, NamedTuple

import numpy as np

from benchmarks.distribute import steps
from tf_hsm import distribute
from tf_hsm.tree.arrays import groups_of


def measure(sizes, kind, replicas, repetitions):
    """Plans a head over replicas, and simulates steps of it.

    Args:
      sizes: `steps.Sizes`.
      kind: how labels are drawn, of `steps.LABELS`.
      replicas: their number.
      repetitions: the number of steps.

    Returns:
      The milliseconds of a step that the plan expects, the milliseconds of the
      simulated steps, and the share of the time that the mean replica waits.
    """
    tree = sizes.tree
    plan = distribute.plan(
        tree,
        replicas=replicas,
        counts=steps.counts_of(kind, tree),
        batch=sizes.batch,
        width=sizes.width,
    )
    labels = steps.draw_labels(kind, plan, repetitions, sizes.batch)
    result = simulate(plan, labels)
    return {
        "planned_ms": plan.cost.milliseconds,
        "ms": float(result.step_milliseconds.mean()),
        "waiting": result.waiting,
    }


class Simulation(NamedTuple):
    """The work of S devices in some synchronous steps.

    R is the number of replicas, each of which has an equal part of a batch, the
    first replica the first labels; 1 if one process calls all shards.

    Attributes:
      plan: the plan, with a width.
      examples: `[steps, R, S]`, by the part of the batch and by the shard.
      work: `[steps, S]`, the rows that examples score in each shard.
      touched: `[steps, S]`, the rows that any example scores.
      top_work: `[steps, R]`, the rows scored in the top.
      top_touched: `[steps, R]`, those that any example scores.
    """

    plan: Any
    examples: np.ndarray
    work: np.ndarray
    touched: np.ndarray
    top_work: np.ndarray
    top_touched: np.ndarray

    @property
    def wire_bytes(self):
        """`[steps, S]`, the bytes that each device sends and receives."""
        leaving, arriving = self._travelling()
        sent, received = self._of_top()
        wire = self.plan.step.wire_bytes(leaving + arriving, self._num_classes)
        return wire + sent + received

    @property
    def network_milliseconds(self):
        """`[steps]`."""
        step = self.plan.step
        if not step.on_replicas:
            return step.wire_milliseconds(self.wire_bytes.sum(1))
        exchange = step.exchange_milliseconds(
            *self._travelling(), self._num_classes
        )
        summing = 1e3 * np.maximum(*self._of_top()) / step.network
        return exchange.max(1) + summing.max(1)

    @property
    def milliseconds(self):
        """`[steps, S]`, of the shards; 0 without an example."""
        return self._milliseconds(self.work, self.touched)

    @property
    def top_milliseconds(self):
        """`[steps, R]`, of the top."""
        return self._milliseconds(self.top_work, self.top_touched)

    @property
    def step_milliseconds(self):
        """`[steps]`: the slowest top, the network, and the slowest shard."""
        slowest = self.top_milliseconds.max(1) + self.milliseconds.max(1)
        return slowest + self.network_milliseconds

    @property
    def largest_work(self):
        """The work of the fullest shard over the mean; both means of steps."""
        return _largest(self.work)

    @property
    def waiting(self):
        """The share of the time of the shards in which the mean one waits."""
        return 1 - 1 / _largest(self.milliseconds)

    @property
    def _num_classes(self):
        return self.plan.tree.num_classes

    def _travelling(self):
        """`[steps, S]` examples that leave each device, and that arrive."""
        if not self.plan.step.on_replicas:
            return 0, self.examples[:, 0]
        own = np.diagonal(self.examples, axis1=1, axis2=2)
        return self.examples.sum(2) - own, self.examples.sum(1) - own

    def _of_top(self):
        """`[steps, R]` bytes of gradients of the top, sent and received."""
        step, touched = self.plan.step, self.top_touched
        if not step.on_replicas:
            return 0, 0
        rows = self.plan.layout.top.num_weight_rows
        size, sums_all_rows = step.top_gradient_bytes(
            rows, touched.mean(), touched.shape[1]
        )
        if sums_all_rows:
            sizes = np.full(touched.shape, size)
            return sizes, sizes
        to_each = step.gathered_bytes(touched)
        sent = to_each * (to_each.shape[1] - 1)
        return sent, to_each.sum(1, keepdims=True) - to_each

    def _milliseconds(self, work, touched):
        times = self.plan.step.milliseconds(work, touched)
        return np.where(work > 0, times, 0.0)


def simulate(plan, batches):
    """Returns the `Simulation` of a plan for the labels of each step."""
    counts = [_count(plan, np.asarray(labels)) for labels in batches]
    return Simulation(plan, *map(np.array, zip(*counts, strict=True)))


def _count(plan, labels):
    """Returns the fields of a `Simulation` for one step."""
    tree, num_shards = plan.tree, len(plan.devices)
    num_parts = num_shards if plan.step.on_replicas else 1
    fanouts = np.diff(tree.group_offsets) // (2 if tree.pinned else 1)
    part = np.arange(labels.size) * num_parts // max(labels.size, 1)
    examples, groups = _paths(tree, labels)
    units = plan.layout.group_units[groups]
    # Shard S stands for the top.
    shards = np.where(
        units < 0,
        num_shards,
        np.searchsorted(plan.layout.first_units, units, "right") - 1,
    )
    sizes = [num_parts, num_shards + 1]
    # A label's last group comes first.
    routed = _sums([part, shards[: labels.size]], sizes)
    work = _sums([part[examples], shards], sizes, fanouts[groups])
    first, of_part = (
        np.unique(keys, return_index=True)[1]
        for keys in (groups, groups + tree.num_groups * part[examples])
    )
    touched = _sums([shards[first]], sizes[1:], fanouts[groups[first]])
    top_touched = _sums(
        [part[examples[of_part]], shards[of_part]],
        sizes,
        fanouts[groups[of_part]],
    )
    return (
        routed[:, :-1],
        work[:, :-1].sum(0),
        touched[:-1],
        work[:, -1],
        top_touched[:, -1],
    )


def _paths(tree, labels):
    """Returns the examples, and the groups that they pass, in pairs."""
    examples = np.arange(labels.size)
    groups = groups_of(tree.group_offsets, tree.class_rows[labels])
    found = []
    while not found or groups.size:
        found.append((examples, groups))
        parents = tree.group_parents[groups]
        examples = examples[parents >= 0]
        groups = groups_of(tree.group_offsets, parents[parents >= 0])
    return map(np.concatenate, zip(*found, strict=True))


def _sums(keys, sizes, values=None):
    """Returns the sums of values, or how many there are, by their keys."""
    keys = np.ravel_multi_index(keys, sizes)
    sums = np.bincount(keys, values, np.prod(sizes))
    return sums.astype(np.int64).reshape(sizes)


def _largest(values):
    """Returns the mean of the largest of each step, over the mean of all."""
    mean = values.mean()
    return float(values.max(1).mean() / mean) if mean > 0 else 1.0
