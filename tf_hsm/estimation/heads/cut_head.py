"""A hierarchical softmax, which may be cut by subtree over devices."""

import dataclasses

import numpy as np

from tf_hsm import _checks, distribute
from tf_hsm._units import read_amount
from tf_hsm.estimation import slots
from tf_hsm.estimation.heads import passed
from tf_hsm.estimation.heads.head_type import Head, array_bytes, of_layer
from tf_hsm.estimation.heads.tree_head import TreeHead, TreeOptions
from tf_hsm.estimation.part import Part, Work
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.layers.replicated import is_over_replicas
from tf_hsm.tree import Tree


@dataclasses.dataclass(frozen=True)
class CutHead(Head):
    """`HierarchicalSoftmax(tree, devices=...)`; see docs/distribution.md.

    Its parts are the top, which is beside the body; the fullest shard, which
    stands for all of them, as they work at the same time; and the network.
    With `on_replicas` they are the parts of the device that has the fullest
    shard.

    Attributes:
      plan: the `tf_hsm.distribute.Plan`.
      counts: how often each class is a label, `[N]`, or None.
      network: bytes a second out of the device of the body, and into it.
      options: the `TreeOptions`.
      on_replicas: whether each replica of the body has a shard, and a copy of
        the top.
    """

    plan: distribute.Plan
    counts: np.ndarray | None
    network: float
    options: TreeOptions
    on_replicas: bool = False

    takes_several_labels = True

    def over_replicas(self, count):
        """See `Head.over_replicas`."""
        if self.options.optimizer is None and self.options.mode is None:
            raise ValueError(
                "a head over replicas updates its own rows: give "
                'head_optimizer, for example "rowwise_adagrad"'
            )
        if count != len(self.plan.shards):
            raise ValueError(
                f"replicas is {count}, but the head is cut over devices: "
                f"shards is {len(self.plan.shards)}; give both the same "
                "number, or leave out one of them"
            )
        return dataclasses.replace(self, on_replicas=True)

    def _parts(self, setting, width):
        plan, costs = self.plan, self.plan.cost.shards
        replicas = len(costs) if self.on_replicas else 1
        whole = passed.of_tree(plan.tree, self.counts)
        fullest = max(plan.shards, key=lambda shard: shard.num_rows)
        share = costs[plan.shards.index(fullest)].examples_share
        top, of_top = self.options, setting
        if replicas > 1:
            # All copies take the gradients of all replicas.
            own = slots.of(top.optimizer)
            of_top = dataclasses.replace(setting, slots=own)
            top = dataclasses.replace(top, optimizer=None)
        here = self._passed(whole, plan.layout.top_rows, 1.0)
        parts = self._part("top", here, top, of_top, width)
        here = self._passed(whole, plan.layout.rows_of(fullest), share)
        # Examples of all replicas come to a shard.
        of_shard = setting.share(share * replicas)
        name = f"shard of {len(costs)}"
        parts += self._part(name, here, self.options, of_shard, width)
        below = setting.tokens * sum(cost.examples_share for cost in costs)
        return [*parts, self._wire(below, replicas, setting, width)]

    def _passed(self, whole, rows, share):
        """The groups of some rows, where a share of all labels comes by."""
        if not rows.size:
            return None
        groups = np.unique(self.plan.tree.row_groups[rows])
        return passed.Passed(
            rows.size - groups.size + 1,
            int(whole.fanouts[groups].sum()),
            whole.fanouts[groups],
            np.minimum(whole.masses[groups] / max(share, 1e-300), 1),
        )

    def _part(self, name, here, options, setting, width):
        if here is None:
            return []
        head = TreeHead(f"{self.name} {name}", 0, here, options)
        return head.parts(setting, width)

    def _wire(self, examples, replicas, setting, width):
        """The bytes for the examples whose labels are below the top.

        A replica sends its examples to the shards of other replicas, and sends
        back results for as many examples of these, in the mean.
        """
        step = distribute.Step(
            width=width, dtype=setting.compute_dtype, network=self.network
        )
        sent = step.wire_bytes(examples, self.num_classes)
        seconds = step.wire_milliseconds(sent) / 1000
        uncounted = ()
        if self.on_replicas:
            sent *= (replicas - 1) / replicas
            seconds = sent / self.network
            uncounted = (
                "the padding of what travels between processes, up to the "
                "largest part",
            )
        return Part(
            f"{self.name} network",
            "network",
            forward=Work(0, sent / 2),
            backward=Work(0, sent / 2),
            seconds=lambda _: seconds,
            uncounted=uncounted,
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
        is_over_replicas(layer),
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
