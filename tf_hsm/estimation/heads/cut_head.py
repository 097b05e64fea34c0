"""A hierarchical softmax, which may be cut by subtree over devices."""

import dataclasses

import numpy as np

from tf_hsm import _checks, distribute
from tf_hsm._units import read_amount
from tf_hsm.estimation.heads import passed
from tf_hsm.estimation.heads.head_type import Head, array_bytes, of_layer
from tf_hsm.estimation.heads.tree_head import TreeHead, TreeOptions
from tf_hsm.estimation.part import Part, Work
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.tree import Tree


@dataclasses.dataclass(frozen=True)
class CutHead(Head):
    """`HierarchicalSoftmax(tree, devices=...)`; see docs/distribution.md.

    Its parts are the top, which is beside the body; the fullest shard, which
    stands for all of them, as they work at the same time; and the network.

    Attributes:
      plan: the `tf_hsm.distribute.Plan`.
      counts: how often each class is a label, `[N]`, or None.
      network: bytes a second out of the device of the body, and into it.
      options: the `TreeOptions`.
    """

    plan: distribute.Plan
    counts: np.ndarray | None
    network: float
    options: TreeOptions

    takes_several_labels = True

    def _parts(self, setting, width):
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
        head = TreeHead(f"{self.name} {name}", 0, here, self.options)
        return head.parts(setting.share(share), width)

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


@of_layer.register
def _of_hierarchical_softmax(layer: HierarchicalSoftmax):
    tree, plan = layer.tree, layer.plan
    options, arrays = TreeOptions.of(layer), array_bytes(layer)
    if plan is None:
        return TreeHead(
            layer.name,
            layer.num_classes,
            passed.of(tree),
            options,
            array_bytes=arrays,
        )
    return CutHead(
        layer.name,
        layer.num_classes,
        plan,
        None,
        plan.step.network,
        options,
        array_bytes=arrays,
    )


def named(
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
      counts: as of `passed.of`.
      optimizer: of the head's own, or None.
      use_bias: whether rows have biases.
      shards: devices over which the tree is cut; None: it is whole.
      network: bytes a second, or a text.

    Raises:
      ValueError: counts or `shards` are out of their range.
    """
    options = TreeOptions(optimizer, use_bias)
    if shards is None:
        found = passed.of(classes, counts)
        return TreeHead(name, found.num_classes, found, options)
    shards = _checks.check_int("shards", shards, 1)
    network = read_amount("network", network, "B")
    tree = classes if isinstance(classes, Tree) else Tree.two_level(classes)
    counts = passed.counts_of(counts, tree.num_classes)
    plan = distribute.plan(tree, shards, counts=counts)
    return CutHead(name, tree.num_classes, plan, counts, network, options)
