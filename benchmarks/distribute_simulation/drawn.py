"""How long devices wait for the slowest, by labels that are drawn."""

from typing import NamedTuple

import numpy as np

from tf_hsm.tree import Tree

LABELS = ("uniform", "zipf", "worst")


class Waiting(NamedTuple):
    """What a simulation says of one number of shards.

    Attributes:
      labels: one of `LABELS`.
      batch: the examples in a step.
      shards: how many.
      largest: the work of the fullest shard over that of the mean one.
      expected: the same as the plan expects it; None for "worst".
      waiting: the share of the time in which the mean shard waits.
      milliseconds: of a step in which nothing overlaps.
    """

    labels: str
    batch: int
    shards: int
    largest: float
    expected: float | None
    waiting: float
    milliseconds: float


def make_tree(num_classes, fanout):
    """Returns a tree of groups of `fanout` rows; 0 is for two levels."""
    if fanout:
        return Tree.balanced(num_classes, fanout)
    return Tree.two_level(num_classes)


def counts_of(labels, num_classes):
    """Returns counts, or None; frequent classes are anywhere in the tree."""
    if labels != "zipf":
        return None
    ranks = np.random.default_rng(0).permutation(num_classes)
    return 1.0 / (1 + ranks)


def waiting(plan, labels, counts, steps):
    """Simulates one plan; returns a `Waiting`.

    Args:
      plan: the `Plan`, with batch and width.
      labels: one of `LABELS`.
      counts: what `counts_of` returned.
      steps: how many steps.
    """
    shard = None
    if labels == "worst":
        # Any class of the shard with the most rows.
        shard = int(np.argmax([shard.num_rows for shard in plan.shards]))
    result = plan.simulate(counts=counts, steps=steps, shard=shard)
    return Waiting(
        labels=labels,
        batch=plan.step.batch,
        shards=len(plan.devices),
        largest=result.largest_work,
        expected=None if labels == "worst" else plan.cost.largest_by_chance,
        waiting=result.waiting,
        milliseconds=float(result.step_milliseconds.mean()),
    )
