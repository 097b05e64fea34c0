"""A hierarchical softmax, which may be cut by subtree over devices."""

import dataclasses

import numpy as np

from tf_hsm import _checks, distribute
from tf_hsm._units import read_amount
from tf_hsm.estimation.heads import visits
from tf_hsm.estimation.heads.head_type import (
    HeadEstimate,
    array_bytes,
    of_layer,
)
from tf_hsm.estimation.heads.tree_parts import TreeEstimate, TreeOptions
from tf_hsm.estimation.part import Part, Work
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.layers.replicated import is_over_replicas
from tf_hsm.tree import Tree


@dataclasses.dataclass(frozen=True)
class CutEstimate(HeadEstimate):
    """`HierarchicalSoftmax(tree, devices=...)`; see docs/distribution.md.

    Its parts are the top, which is beside the body; the fullest shard, which
    stands for all of them, as they work at the same time; and the network.
    With `on_replicas` they are the parts of the device that has the fullest
    shard.

    Attributes:
      plan: the `tf_hsm.distribute.Plan`.
      counts: how often each class is a label, `[N]`, or None.
      network: bytes a second out of the device of the body, and into it.
      on_replicas: whether each replica of the body has a shard, and a copy of
        the top.
    """

    plan: distribute.Plan
    counts: np.ndarray | None
    network: float
    on_replicas: bool = False

    takes_several_labels = True

    def over_replicas(self, count):
        """See `HeadEstimate.over_replicas`."""
        check_replicas(count, len(self.plan.shards), self.options)
        return dataclasses.replace(self, on_replicas=True)

    def _parts(self, setting, width):
        plan, costs = self.plan, self.plan.cost.shards
        replicas = len(costs) if self.on_replicas else 1
        fullest = max(plan.shards, key=lambda shard: shard.num_rows)
        share = costs[plan.shards.index(fullest)].examples_share
        top, of_top = self.options, setting
        if replicas > 1:
            top, of_top = top.on_copies(setting)
        groups = plan.layout.group_units
        first = fullest.first_unit
        is_here = (groups >= first) & (groups < first + fullest.num_units)
        # Examples of all replicas come to a shard.
        of_shard = setting.share(share * replicas)
        name, own = f"shard of {len(costs)}", self.options
        whole = visits.of(plan.tree, self.counts)
        at_top = self._visits(whole, groups < 0, 1.0)
        at_shard = self._visits(whole, is_here, share)
        below = setting.tokens * sum(cost.examples_share for cost in costs)
        return [
            *self._part("top", at_top, top, of_top, width),
            *self._part(name, at_shard, own, of_shard, width),
            network_part(
                self.name,
                setting,
                self.network,
                self.num_classes,
                [(below, width)],
                replicas if self.on_replicas else None,
            ),
        ]

    def _visits(self, whole, is_here, share):
        """Returns the `Visits` of some groups by a share of all labels."""
        fanouts = whole.fanouts[is_here]
        num_rows = int(fanouts.sum())
        # A group has a class for each row that is above no group.
        num_nodes = num_rows * (1 + self.plan.tree.pinned)
        return visits.Visits(
            num_nodes - fanouts.size + 1,
            num_rows,
            fanouts,
            np.minimum(whole.masses[is_here] / max(share, 1e-300), 1),
        )

    def _part(self, name, found, options, setting, width):
        """Returns the part of the groups of `found`, if there are any."""
        if not found.fanouts.size:
            return []
        head = TreeEstimate(
            f"{self.name} {name}", found.num_classes, found, options=options
        )
        return head.parts(setting, width)


@of_layer.register
def _of_hierarchical_softmax(layer: HierarchicalSoftmax):
    plan = layer.plan
    options = {
        "options": TreeOptions.of(layer),
        "array_bytes": array_bytes(layer),
    }
    if plan is None:
        found = visits.of(layer.tree)
        return TreeEstimate(layer.name, layer.num_classes, found, **options)
    return CutEstimate(
        layer.name,
        layer.num_classes,
        plan,
        None,
        plan.step.network,
        is_over_replicas(layer),
        **options,
    )


def hierarchical(
    name,
    classes,
    counts,
    *,
    optimizer=None,
    use_bias=True,
    shards=None,
    network=1.25e9,
):
    """Returns the head of a `Tree`, or of N classes in two levels.

    Args:
      name: of the head.
      classes: a `Tree`, or N.
      counts: as of `visits.of`.
      optimizer: of the head's own, or None.
      use_bias: whether rows have biases.
      shards: devices over which the tree is cut; None: it is whole.
      network: bytes a second, or a text.

    Raises:
      ValueError: counts or `shards` are out of their range.
    """
    options = TreeOptions(optimizer, use_bias)
    if shards is None:
        found = visits.of(classes, counts)
        return TreeEstimate(name, found.num_classes, found, options=options)
    shards = _checks.check_int("shards", shards, 1)
    network = read_amount("network", network, "B")
    tree = classes if isinstance(classes, Tree) else Tree.two_level(classes)
    counts = visits.counts_of(counts, tree.num_classes)
    plan = distribute.plan(tree, shards, counts=counts)
    return CutEstimate(
        name, tree.num_classes, plan, counts, network, options=options
    )


def check_replicas(replicas, shards, options):
    """Checks that each replica can have one shard of a head.

    Args:
      replicas: the number of replicas.
      shards: the number of devices over which the head is cut.
      options: the `TreeOptions` of the head.

    Raises:
      ValueError: the numbers differ, or the head has no optimizer of its own.
    """
    if options.optimizer is None and options.mode is None:
        raise ValueError(
            "a head over replicas updates its own rows: give "
            'head_optimizer, for example "rowwise_adagrad"'
        )
    if replicas != shards:
        raise ValueError(
            f"replicas is {replicas}, but the head is cut over devices: shards "
            f"is {shards}; give both the same number, or leave out one of them"
        )


def network_part(name, setting, network, num_classes, vectors, replicas):
    """Returns the `Part` of the bytes that shards exchange for examples.

    A replica sends its examples to the shards of other replicas, and results
    for as many examples of the other replicas, in the mean. A body on one
    device sends all examples to shards.

    Args:
      name: the name of the head.
      setting: the `Setting` of a replica, or of the device of the body.
      network: bytes a second out of the device, and into it.
      num_classes: N.
      vectors: pairs: how many examples have their label in a shard, and the
        width of the vectors that the shard takes.
      replicas: the number of replicas; None for a body on one device.
    """
    sent = milliseconds = 0.0
    for examples, width in vectors:
        step = distribute.Step(
            width=width, dtype=setting.compute_dtype, network=network
        )
        if replicas is not None:
            examples *= (replicas - 1) / replicas
            milliseconds += step.exchange_milliseconds(
                examples, examples, num_classes
            )
        wire = step.wire_bytes(examples, num_classes)
        sent += wire
        if replicas is None:
            milliseconds += step.wire_milliseconds(wire)
    uncounted = (
        "the padding of what travels between processes, up to the largest part",
    )
    return Part(
        f"{name} network",
        "network",
        forward=Work(0, sent / 2),
        backward=Work(0, sent / 2),
        seconds=lambda _: milliseconds / 1000,
        uncounted=() if replicas is None else uncounted,
    )
