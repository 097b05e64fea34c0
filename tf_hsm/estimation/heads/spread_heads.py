"""Heads that may be spread over devices: by subtree, or tail by tail."""

import dataclasses

import numpy as np

from tf_hsm import _checks, distribute
from tf_hsm.estimation import slots
from tf_hsm.estimation.heads import visits
from tf_hsm.estimation.heads.head_type import HeadEstimate
from tf_hsm.estimation.heads.tree_heads import TreeEstimate, TreeOptions
from tf_hsm.estimation.part import Part, Work
from tf_hsm.estimation.slots import of_rows, part_with
from tf_hsm.layers import AdaptiveSoftmax
from tf_hsm.layers.replicated import is_over_replicas, num_replicas
from tf_hsm.partition.cluster_spec import ClusterSpec
from tf_hsm.tree import Tree

_INT64 = 1 << 63


@dataclasses.dataclass(frozen=True)
class SpreadEstimate(HeadEstimate):
    """A head that may be spread over devices, with a top that is not.

    A subclass has the attribute `shards`, the number of devices, or None.

    Attributes:
      network: bytes a second out of each device, and into it.
      on_replicas: whether each of as many replicas of the body has a shard, and
        a copy of the top.
    """

    network: float = dataclasses.field(default=1.25e9, kw_only=True)
    on_replicas: bool = dataclasses.field(default=False, kw_only=True)

    takes_several_labels = True

    def over_replicas(self, count):
        """See `HeadEstimate.over_replicas`."""
        if self.shards is None:
            return self
        if self.options.optimizer is None and self.options.mode is None:
            raise ValueError(
                "a head over replicas updates its own rows: give "
                'head_optimizer, for example "rowwise_adagrad"'
            )
        if count != self.shards:
            raise ValueError(
                f"replicas is {count}, but the head is cut over devices: "
                f"shards is {self.shards}; give both the same number, or leave "
                "out one of them"
            )
        return dataclasses.replace(self, on_replicas=True)

    def _of_top(self, setting, replicas):
        """Returns the `TreeOptions` and the `Setting` of the top.

        The optimizer of the head updates the copy of each replica by the
        gradients of all replicas, so that the replicas exchange gradients.
        """
        if replicas == 1:
            return self.options, setting
        own = slots.of(self.options.optimizer)
        return (
            dataclasses.replace(self.options, optimizer=None),
            dataclasses.replace(setting, slots=own),
        )

    def _network_part(self, dtype, num_classes, vectors, replicas):
        """Returns the `Part` of the bytes that shards exchange for examples.

        A replica sends its examples to the shards of other replicas, and
        results for as many examples of the other replicas, in the mean. A body
        on one device sends all examples to shards.

        Args:
          dtype: of the vectors, a name.
          num_classes: below which the labels are that travel.
          vectors: pairs: how many examples have their label in a shard, and the
            width of the vectors that the shard takes.
          replicas: the number of replicas.
        """
        sent = milliseconds = 0.0
        for examples, width in vectors:
            step = distribute.Step(
                width=width, dtype=dtype, network=self.network
            )
            if self.on_replicas:
                examples *= (replicas - 1) / replicas
                milliseconds += step.exchange_milliseconds(
                    examples, examples, num_classes
                )
            wire = step.wire_bytes(examples, num_classes)
            sent += wire
            if not self.on_replicas:
                milliseconds += step.wire_milliseconds(wire)
        uncounted = (
            "the padding of what travels between processes, up to the largest "
            "part",
        )
        return Part(
            f"{self.name} network",
            "network",
            forward=Work(0, sent / 2),
            backward=Work(0, sent / 2),
            seconds=lambda _: milliseconds / 1000,
            uncounted=uncounted if self.on_replicas else (),
        )


@dataclasses.dataclass(frozen=True)
class CutEstimate(SpreadEstimate):
    """`HierarchicalSoftmax(tree, devices=...)`; see docs/distribution.md.

    Its parts are the top, which is beside the body; the fullest shard, which
    stands for all of them, as they work at the same time; and the network.
    With `on_replicas` they are the parts of the device that has the fullest
    shard.

    Attributes:
      plan: the `tf_hsm.distribute.Plan`.
      counts: how often each class is a label, `[N]`, or None.
    """

    plan: distribute.Plan
    counts: np.ndarray | None

    @property
    def shards(self):
        """The number of shards."""
        return len(self.plan.shards)

    def _parts(self, setting, width):
        plan, costs = self.plan, self.plan.cost.shards
        replicas = len(costs) if self.on_replicas else 1
        fullest = max(plan.shards, key=lambda shard: shard.num_rows)
        share = costs[plan.shards.index(fullest)].examples_share
        groups = plan.layout.group_units
        first = fullest.first_unit
        is_here = (groups >= first) & (groups < first + fullest.num_units)
        whole = visits.of(plan.tree, self.counts)
        of_top = self._of_top(setting, replicas)
        top = self._part("top", whole, groups < 0, 1.0, *of_top, width)
        num_rows = int(whole.fanouts[groups < 0].sum())
        top = [_copied(part, num_rows) for part in top]
        # Examples of all replicas come to a shard.
        of_shard = self.options, setting.share(share * replicas)
        name = f"shard of {len(costs)}"
        shard = self._part(name, whole, is_here, share, *of_shard, width)
        below = setting.tokens * sum(cost.examples_share for cost in costs)
        network = self._network_part(
            setting.compute_dtype, self.num_classes, [(below, width)], replicas
        )
        return [*top, *shard, network]

    def _part(self, name, whole, is_own, share, options, setting, width):
        """Returns the part of some groups by a share of all labels, if any."""
        if not is_own.any():
            return []
        fanouts = whole.fanouts[is_own]
        num_rows = int(fanouts.sum())
        # A group has a class for each row that is above no group.
        num_nodes = num_rows * (1 + self.plan.tree.pinned)
        num_classes = num_nodes - fanouts.size + 1
        masses = np.minimum(whole.masses[is_own] / max(share, 1e-300), 1)
        head = TreeEstimate(
            f"{self.name} {name}",
            num_classes,
            visits.Visits(num_classes, num_rows, fanouts, masses),
            options=options,
        )
        return head.parts(setting, width)


@dataclasses.dataclass(frozen=True)
class AdaptiveEstimate(SpreadEstimate):
    """`tf_hsm.layers.AdaptiveSoftmax` (Grave et al., 2016).

    Over replicas, its parts belong to the replica whose tails have the most
    parameters. Each replica has a copy of the shortlist and the projections.

    Attributes:
      spec: the `ClusterSpec`, which need not have chosen its clusters.
      counts: `[N]`, by falling frequency, how often each class is the label.
      tail_bias: whether the rows of tails have biases.
      shards: the number of replicas that have the tails in turn; None: the
        head is whole.
    """

    spec: ClusterSpec
    counts: np.ndarray
    tail_bias: bool
    shards: int | None = None

    @property
    def width(self):
        """The width of the inputs of a layer that embeds; else None."""
        return self.spec.width

    def _parts(self, setting, width):
        replicas = self.shards or 1
        if replicas > 1 and not self.on_replicas:
            raise ValueError(
                f"shards is {self.shards}, but {self.name} has no estimate for "
                "tails on the devices of one process; give replicas the same "
                "number, or leave out shards"
            )
        width = self.width or width
        clusters = self.spec.clusters_for(width)
        widths = self.spec.widths_for(width, len(clusters.cutoffs))
        groups, *tails = clusters.split(self.counts)
        options, of_shortlist = self._of_top(setting, replicas)
        tree = clusters.shortlist_tree
        parts = TreeEstimate.on(
            f"{self.name} shortlist", tree, groups, options
        ).parts(of_shortlist, width)
        if self.on_replicas:
            parts = [_copied(part, tree.num_weight_rows) for part in parts]
        of_tails = dataclasses.replace(self.options, use_bias=self.tail_bias)
        on_replicas = [[] for _ in range(replicas)]
        vectors = []
        for number, (tree, counts) in enumerate(
            zip(clusters.tail_trees, tails, strict=True), 1
        ):
            share = counts.sum() / self.counts.sum()
            counts = counts if counts.any() else None
            name = f"{self.name} tail {number}"
            tail = TreeEstimate.on(name, tree, counts, of_tails)
            narrow = widths[number]
            if narrow < width:
                routed = setting.share(share)
                parts.append(_projection(name, routed, width, narrow))
            # Examples of all replicas come to a tail.
            routed = setting.share(share * replicas)
            on_replicas[(number - 1) % replicas] += tail.parts(routed, narrow)
            vectors.append((setting.tokens * share, narrow))
        parts += max(on_replicas, key=lambda x: sum(p.parameters for p in x))
        if replicas > 1:
            # Products are float32, or float64 as the variables; labels int64.
            dtype = "float64" if setting.dtype == "float64" else "float32"
            parts.append(self._network_part(dtype, _INT64, vectors, replicas))
        return parts


def _copied(part, num_rows):
    """Returns a part with rows of which each replica has a copy."""
    size = part.parameter_bytes * (1 + num_rows / part.parameters)
    return dataclasses.replace(part, summed_bytes=size)


def of_hierarchical_softmax(layer):
    """Returns the head that a `HierarchicalSoftmax` is."""
    plan, options = layer.plan, TreeOptions.of(layer)
    if plan is None:
        return TreeEstimate.on(layer.name, layer.tree, None, options)
    return CutEstimate(
        layer.name,
        layer.num_classes,
        plan,
        None,
        network=plan.step.network,
        on_replicas=is_over_replicas(layer),
        options=options,
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
    """Returns the head of a `Tree`, or of N classes in two levels."""
    options = TreeOptions(optimizer, use_bias)
    if shards is None:
        return TreeEstimate.on(name, classes, counts, options)
    tree = classes if isinstance(classes, Tree) else Tree.two_level(classes)
    counts = visits.counts_of(counts, tree.num_classes)
    plan = distribute.plan(tree, shards, counts=counts)
    return CutEstimate(
        name, tree.num_classes, plan, counts, network=network, options=options
    )


def _projection(name, setting, width, narrow):
    """Examples that are gathered, and their product with `[width, narrow]`."""
    tokens, size = setting.tokens, setting.itemsize
    products = 2 * tokens * width * narrow
    moved = size * (tokens * (2 * width + narrow) + width * narrow)
    part = Part(
        f"{name} projection",
        "projection",
        saved_bytes=size * tokens * (width + narrow),
        tensor_bytes=size * tokens * width,
        backward_bytes=size * tokens * (2 * width + narrow),
        forward=Work(products, moved, 8),
        backward=Work(2 * products, 2 * moved, 10),
    )
    table = of_rows(width, narrow, False, setting.dtype)
    return part_with(table, part, setting)


def of_adaptive_softmax(layer, counts=None, shards=None, network=1.25e9):
    """Returns the head that an `AdaptiveSoftmax` is.

    A layer over replicas knows the number of `shards`.
    """
    spec, num_classes = layer.spec, layer.num_classes
    if counts is None and spec.ranked_counts is not None:
        counts = spec.ranked_counts
    elif counts is None or isinstance(counts, str):
        text = "zipf" if counts is None else counts
        counts = visits.counts_of(text, num_classes)
    else:
        counts = np.sort(_checks.check_counts(counts, num_classes))[::-1]
    on_replicas = is_over_replicas(layer)
    return AdaptiveEstimate(
        layer.name,
        num_classes,
        spec,
        counts,
        layer.rows.use_bias is True,
        num_replicas(layer) if on_replicas else shards,
        network=network,
        on_replicas=on_replicas,
        options=TreeOptions.of(layer),
    )


def adaptive(
    name,
    classes,
    counts,
    *,
    optimizer=None,
    shards=None,
    network=1.25e9,
    **options,
):
    """Returns the head of N classes; `options` are of `AdaptiveSoftmax`.

    With `shards`, as many replicas have the tails in turn.
    """
    layer = AdaptiveSoftmax(
        visits.num_classes_of(classes),
        counts=None if isinstance(counts, str) else counts,
        optimizer=optimizer,
        name=name,
        **options,
    )
    return of_adaptive_softmax(layer, counts, shards, network)
