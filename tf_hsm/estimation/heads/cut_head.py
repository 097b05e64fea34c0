"""A hierarchical softmax that is cut by subtree over devices."""

import dataclasses

import numpy as np

from tf_hsm import distribute
from tf_hsm.estimation.heads import passed
from tf_hsm.estimation.heads.head_type import Head
from tf_hsm.estimation.heads.tree_head import TreeHead
from tf_hsm.estimation.part import Part, Work


@dataclasses.dataclass(frozen=True)
class CutHead(Head):
    """`HierarchicalSoftmax(tree, devices=...)`; see docs/distribution.md.

    Its parts are the top, which is beside the body; the fullest shard, which
    stands for all of them, as they work at the same time; and the network.

    Attributes:
      plan: the `tf_hsm.distribute.Plan`.
      counts: how often each class is a label, `[N]`, or None.
      network: bytes a second out of the device of the body, and into it.
      rule: as of `TreeHead`.
      use_bias: as of `TreeHead`.
    """

    plan: distribute.Plan
    counts: np.ndarray | None
    network: float
    rule: object = None
    use_bias: bool = True

    def parts(self, setting, width):
        """See `Head.parts`."""
        plan, costs = self.plan, self.plan.cost.shards
        whole = passed.of_tree(plan.tree, self.counts)
        fullest = max(plan.shards, key=lambda shard: shard.num_rows)
        share = costs[plan.shards.index(fullest)].examples_share
        parts = self._part(
            "top", whole, plan.layout.top_rows, 1.0, setting, width
        )
        parts += self._part(
            f"shard of {len(costs)}",
            whole,
            plan.layout.rows_of(fullest),
            share,
            setting,
            width,
        )
        below = setting.tokens * sum(cost.examples_share for cost in costs)
        return [*parts, self._wire(below, setting, width)]

    def _part(self, name, whole, rows, share, setting, width):
        """Those of some rows, where a share of all labels comes by."""
        if not rows.size:
            return []
        groups = np.unique(self.plan.tree.row_groups[rows])
        here = passed.Passed(
            rows.size - groups.size + 1,
            int(whole.fanouts[groups].sum()),
            whole.fanouts[groups],
            np.minimum(whole.masses[groups] / max(share, 1e-300), 1),
        )
        examples = max(round(setting.tokens * share), 1)
        return TreeHead(
            f"{self.name} {name}", 0, here, self.rule, self.use_bias
        ).parts(dataclasses.replace(setting, batch=examples, length=1), width)

    def _wire(self, examples, setting, width):
        """What travels for the examples whose labels are below the top."""
        step = distribute.Step(
            width=width, dtype=setting.compute_dtype, network=self.network
        )
        sent = step.wire_bytes(examples, self.num_classes)
        return Part(
            f"{self.name} network",
            "network",
            forward=Work(0, sent / 2),
            backward=Work(0, sent / 2),
            seconds=lambda _: step.wire_milliseconds(sent) / 1000,
        )


def of(name, tree, shards, counts=None, network=1.25e9, **options):
    """Returns the head of a tree that is planned for so many devices.

    Raises:
      ValueError: counts or `shards` are out of their range.
    """
    counts = passed.counts_of(counts, tree.num_classes)
    plan = distribute.plan(tree, shards, counts=counts)
    return CutHead(name, tree.num_classes, plan, counts, network, **options)
