"""Heads of stock TensorFlow: a full softmax, a sampled one, and trees."""

import dataclasses

from tf_hsm import baselines
from tf_hsm.estimation.heads import visits
from tf_hsm.estimation.heads.head_type import HeadEstimate
from tf_hsm.estimation.part import Part, Work
from tf_hsm.estimation.slots import of_rows, part_with
from tf_hsm.tree import Tree
from tf_hsm.tree.check import check_not_pinned

# Kernels that an example's group takes in a `tf.map_fn`, forward and backward.
_MAP_OPS = (25, 60)


@dataclasses.dataclass(frozen=True)
class FullEstimate(HeadEstimate):
    """A Dense layer over all classes, and the cross-entropy of its logits."""

    use_bias: bool = True

    def _parts(self, setting, width):
        tokens, size = setting.tokens, setting.compute_itemsize
        rows = of_rows(self.num_classes, width, self.use_bias, setting.dtype)
        logits = tokens * self.num_classes
        narrow = logits * size if size < 4 else 0
        products = 2 * logits * width
        moved = size * (logits + tokens * width)
        moved += self.num_classes * (width + self.use_bias) * setting.itemsize
        part = Part(
            self.name,
            "Dense",
            # The loss makes the gradient where the logits were, which are
            # float32 for it.
            saved_bytes=logits * max(size, 4),
            tensor_bytes=logits * size,
            forward_bytes=narrow,
            backward_bytes=narrow + tokens * width * size,
            forward=Work(
                products + 4 * logits, moved + 16 * logits, 6, softmax=logits
            ),
            backward=Work(2 * products + logits, 2 * moved + 8 * logits, 5),
        )
        return [part_with(rows, part, setting)]


@dataclasses.dataclass(frozen=True)
class SampledEstimate(HeadEstimate):
    """`tf.nn.sampled_softmax_loss`, and `tf_hsm.layers.SampledSoftmax`."""

    num_sampled: int = 1024
    use_bias: bool = True

    takes_several_labels = True

    def _parts(self, setting, width):
        tokens, size = setting.tokens, setting.compute_itemsize
        rows = tokens + self.num_sampled  # looked up: labels and samples
        logits = tokens * (self.num_sampled + 1)
        # The logits of labels are sums of elementwise products.
        products = 2 * tokens * self.num_sampled * width
        products += 2 * tokens * width
        moved = size * (3 * rows * width + 4 * logits)
        part = Part(
            self.name,
            "sampled softmax",
            touched=(rows, rows),
            saved_bytes=size * (2 * rows * width + tokens * width + 2 * logits),
            tensor_bytes=size * logits,
            forward_bytes=2 * size * logits,
            backward_bytes=2 * size * (rows * width + logits),
            forward=Work(products + 6 * logits, moved, 30, softmax=logits),
            backward=Work(2 * products + 2 * logits, 2 * moved, 40),
        )
        table = of_rows(self.num_classes, width, self.use_bias, setting.dtype)
        return [part_with(table, part, setting, index_bytes=8)]


@dataclasses.dataclass(frozen=True)
class BaselineEstimate(HeadEstimate):
    """A loss of `tf_hsm.baselines` on variables `[R, D]` and `[R]`.

    Attributes:
      function: "gather", "embedding_lookup" or "map_fn".
      num_rows: R.
      widest: `[L]`, the largest fanout of each level.
      num_groups: `[L]`.
    """

    function: str
    num_rows: int
    widest: tuple
    num_groups: tuple

    def _parts(self, setting, width):
        tokens, size = setting.tokens, setting.itemsize
        logits = tokens * sum(self.widest)
        products = 2 * logits * width
        if self.function == "map_fn":
            # Each example's groups are sliced; each slice's gradient is dense.
            dense = self.num_rows * width * size
            groups = tokens * len(self.widest)
            forward, backward = _MAP_OPS
            moved = 3 * logits * width * size, 3 * groups * dense
            fields = {
                "saved_bytes": logits * width * size,
                "tensor_bytes": dense,
                # Ten dense gradients at once, one of them the result.
                "backward_bytes": 9 * dense,
                "forward": Work(products, moved[0], forward * groups),
                "backward": Work(2 * products, moved[1], backward * groups),
            }
        else:
            # Each level's groups are copied, `[B, K, D]`, but for one group's.
            copies = [
                wide * width * (1 if count == 1 else tokens)
                for wide, count in zip(
                    self.widest, self.num_groups, strict=True
                )
            ]
            numbers = sum(copies)
            fields = {
                # The gradient joins the rows of all levels, and may repeat
                # them.
                "touched": (numbers // width, numbers // width),
                "saved_bytes": numbers * size,
                "tensor_bytes": max(copies) * size,
                "backward_bytes": numbers * size,
                "forward": Work(products, 3 * size * numbers, 20),
                "backward": Work(2 * products, 6 * size * numbers, 40),
            }
        part = Part(self.name, f"tf.{self.function}", **fields)
        rows = of_rows(self.num_rows, width, True, setting.dtype)
        return [part_with(rows, part, setting, index_bytes=8)]


def of_sampled_softmax(layer):
    """Returns the head that a `SampledSoftmax` is."""
    return SampledEstimate(
        layer.name,
        layer.num_classes,
        min(layer.num_sampled, layer.num_classes),
        layer.rows.use_bias,
    )


def full(name, classes, counts, *, use_bias=True):
    """Returns the `FullEstimate` of N classes, or of a `Tree`'s classes."""
    del counts
    return FullEstimate(name, visits.num_classes_of(classes), use_bias)


def sampled(name, classes, counts, **options):
    """Returns the `SampledEstimate` of N classes, or of a `Tree`'s classes."""
    del counts
    return SampledEstimate(name, visits.num_classes_of(classes), **options)


def baseline(name, classes, counts):
    """Returns the head that a function of `tf_hsm.baselines` is, by name."""
    found = visits.of(classes, counts)
    if isinstance(classes, Tree):
        check_not_pinned(classes, f"{name!r}")
        levels = baselines.tree_levels(classes)
        widest, num_groups = tuple(levels.widest), tuple(levels.num_groups)
    else:
        root, *below = found.fanouts.tolist()
        widest = (root, max(below)) if below else (root,)
        num_groups = (1, len(below)) if below else (1,)
    return BaselineEstimate(
        name, found.num_classes, name, found.num_rows, widest, num_groups
    )
