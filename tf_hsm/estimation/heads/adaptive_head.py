"""An adaptive softmax: a shortlist, and tails of narrower vectors."""

import dataclasses

import numpy as np

from tf_hsm import _checks
from tf_hsm.estimation.heads import passed
from tf_hsm.estimation.heads.head_type import Head, array_bytes, of_layer
from tf_hsm.estimation.heads.table import Table
from tf_hsm.estimation.heads.tree_head import TreeHead, TreeOptions
from tf_hsm.estimation.part import Work
from tf_hsm.layers import AdaptiveSoftmax
from tf_hsm.partition.cluster_spec import ClusterSpec


@dataclasses.dataclass(frozen=True)
class AdaptiveHead(Head):
    """`tf_hsm.layers.AdaptiveSoftmax` (Grave et al., 2016).

    Attributes:
      spec: the `ClusterSpec`, which need not have chosen its clusters.
      counts: `[N]`, by falling frequency, how often each class is the label.
      options: the `TreeOptions` of the shortlist.
      tail_bias: whether the rows of tails have biases.
    """

    spec: ClusterSpec
    counts: np.ndarray
    options: TreeOptions
    tail_bias: bool

    takes_several_labels = True

    @property
    def width(self):
        """The width of the inputs of a layer that embeds; else None."""
        return self.spec.width

    def _parts(self, setting, width):
        width = self.width or width
        clusters = self.spec.clusters_for(width)
        widths = self.spec.widths_for(width, len(clusters.cutoffs))
        groups, *tails = clusters.split(self.counts)
        parts = self._cluster(
            "shortlist", clusters.shortlist_tree, groups, self.options
        ).parts(setting, width)
        of_tails = dataclasses.replace(self.options, use_bias=self.tail_bias)
        for number, (tree, counts) in enumerate(
            zip(clusters.tail_trees, tails, strict=True), 1
        ):
            routed = setting.share(counts.sum() / self.counts.sum())
            counts = counts if counts.any() else None
            tail = self._cluster(f"tail {number}", tree, counts, of_tails)
            narrow = widths[number]
            if narrow < width:
                name = f"{tail.name} projection"
                parts.append(_projection(name, routed, width, narrow))
            parts += tail.parts(routed, narrow)
        return parts

    def _cluster(self, name, tree, counts, options):
        return TreeHead(
            f"{self.name} {name}",
            tree.num_classes,
            passed.of_tree(tree, counts),
            options,
        )


def _projection(name, setting, width, narrow):
    """Examples that are gathered, and their product with `[width, narrow]`."""
    table = Table(width, narrow, False, setting)
    tokens, size = setting.tokens, setting.itemsize
    products = 2 * tokens * width * narrow
    moved = size * tokens * (2 * width + narrow) + table.bytes
    return table.part(
        name,
        "projection",
        saved_bytes=size * tokens * (width + narrow),
        tensor_bytes=size * tokens * width,
        backward_bytes=size * tokens * (2 * width + narrow),
        forward=Work(products, moved, 8),
        backward=Work(2 * products, 2 * moved, 10),
    )


@of_layer.register
def _of_adaptive_softmax(layer: AdaptiveSoftmax, counts=None):
    spec = layer.spec
    if counts is None and spec.ranked_counts is not None:
        counts = spec.ranked_counts
    elif counts is None or isinstance(counts, str):
        counts = passed.zipf(layer.num_classes, counts)
    else:
        counts = np.sort(_checks.check_counts(counts, layer.num_classes))[::-1]
    return AdaptiveHead(
        layer.name,
        layer.num_classes,
        spec,
        counts,
        TreeOptions.of(layer),
        layer.rows.use_bias is True,
        array_bytes=array_bytes(layer),
    )


def named(name, classes, counts, *, optimizer=None, **options):
    """Returns the head of N classes; `options` are of `AdaptiveSoftmax`."""
    layer = AdaptiveSoftmax(
        passed.num_classes_of(classes),
        counts=None if isinstance(counts, str) else counts,
        optimizer=optimizer,
        name=name,
        **options,
    )
    return _of_adaptive_softmax(layer, counts)
