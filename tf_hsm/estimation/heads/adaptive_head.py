"""An adaptive softmax: a shortlist, and tails of narrower vectors."""

import dataclasses

import numpy as np

from tf_hsm.estimation.heads import passed
from tf_hsm.estimation.heads.head_type import Head
from tf_hsm.estimation.heads.table import Table
from tf_hsm.estimation.heads.tree_head import TreeHead
from tf_hsm.estimation.part import Part, Work
from tf_hsm.layers import AdaptiveSoftmax


@dataclasses.dataclass(frozen=True)
class AdaptiveHead(Head):
    """`tf_hsm.layers.AdaptiveSoftmax` (Grave et al., 2016).

    Attributes:
      layer: the layer, which need not be built.
      counts: `[N]`, by falling frequency, how often each class is the label.
    """

    layer: AdaptiveSoftmax
    counts: np.ndarray

    def parts(self, setting, width):
        """See `Head.parts`."""
        layer = self.layer
        width = layer.width or width
        clusters = layer.spec.clusters_for(width)
        widths = layer.spec.widths_for(width, len(clusters.cutoffs))
        groups, *tails = clusters.split(self.counts)
        shortlist = TreeHead(
            f"{self.name} shortlist",
            groups.size,
            passed.of_tree(clusters.shortlist_tree, groups),
            layer.optimizer,
            bool(layer.use_bias),
        )
        parts = shortlist.parts(setting, width)
        for number, (tree, counts) in enumerate(
            zip(clusters.tail_trees, tails, strict=True), 1
        ):
            share = counts.sum() / self.counts.sum()
            routed = dataclasses.replace(
                setting, batch=max(round(setting.tokens * share), 1), length=1
            )
            name = f"{self.name} tail {number}"
            if widths[number] < width:
                parts.append(
                    _projection(
                        f"{name} projection", routed, width, widths[number]
                    )
                )
            tail = TreeHead(
                name,
                tree.num_classes,
                passed.of_tree(tree, counts if counts.any() else None),
                layer.optimizer,
                layer.use_bias is True,
            )
            parts += tail.parts(routed, widths[number])
        return parts


def _projection(name, setting, width, narrow):
    """Examples that are gathered, and their product with `[width, narrow]`."""
    table = Table(width, narrow, False, setting)
    tokens, size = setting.tokens, setting.itemsize
    products = 2 * tokens * width * narrow
    moved = size * tokens * (2 * width + narrow) + table.bytes
    return Part(
        name,
        "projection",
        parameters=table.parameters,
        parameter_bytes=table.bytes,
        gradient_bytes=table.dense_gradient,
        saved_bytes=size * tokens * (width + narrow),
        tensor_bytes=size * tokens * width,
        backward_bytes=size * tokens * (2 * width + narrow),
        forward=Work(products, moved, 8),
        backward=Work(2 * products, 2 * moved, 10),
        **table.of_slots(setting.slots),
    )
