"""An adaptive softmax: a shortlist, and tails of narrower vectors."""

import dataclasses

import numpy as np

from tf_hsm import _checks
from tf_hsm.estimation.heads import visits
from tf_hsm.estimation.heads.cut_head import SpreadEstimate
from tf_hsm.estimation.heads.tree_parts import TreeEstimate, TreeOptions
from tf_hsm.estimation.part import Part, Work
from tf_hsm.estimation.variable_parts import of_rows, part_with
from tf_hsm.layers import AdaptiveSoftmax
from tf_hsm.layers.replicated import is_over_replicas, num_replicas
from tf_hsm.partition.cluster_spec import ClusterSpec

_INT64 = 1 << 63


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
            # Products have the type of the variables, and labels 64 bits.
            parts.append(
                self._network_part(setting.dtype, _INT64, vectors, replicas)
            )
        return parts


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
