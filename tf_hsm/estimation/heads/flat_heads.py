"""Softmaxes over all classes, or over a sample of them."""

import dataclasses

from tf_hsm.estimation.heads import passed
from tf_hsm.estimation.heads.head_type import Head, array_bytes, of_layer
from tf_hsm.estimation.heads.table import Table
from tf_hsm.estimation.part import Work
from tf_hsm.layers import SampledSoftmax


@dataclasses.dataclass(frozen=True)
class FullHead(Head):
    """A Dense layer over all classes, and the cross-entropy of its logits.

    Attributes:
      use_bias: whether classes have biases.
    """

    use_bias: bool = True

    def _parts(self, setting, width):
        tokens, classes = setting.tokens, self.num_classes
        size = setting.compute_itemsize
        table = Table(classes, width, self.use_bias, setting)
        logits = tokens * classes
        narrow = logits * size if size < 4 else 0
        products = 2 * logits * width
        moved = size * (logits + tokens * width) + table.bytes
        return [
            table.part(
                self.name,
                "Dense",
                # The loss makes the gradient where the logits were, which
                # are float32 for it.
                saved_bytes=logits * max(size, 4),
                tensor_bytes=logits * size,
                forward_bytes=narrow,
                backward_bytes=narrow + tokens * width * size,
                forward=Work(
                    products + 4 * logits,
                    moved + 16 * logits,
                    6,
                    softmax=logits,
                ),
                backward=Work(2 * products + logits, 2 * moved + 8 * logits, 5),
            )
        ]


@dataclasses.dataclass(frozen=True)
class SampledHead(Head):
    """`tf.nn.sampled_softmax_loss`, and `tf_hsm.layers.SampledSoftmax`.

    Attributes:
      num_sampled: classes that are drawn for a step.
      use_bias: whether classes have biases.
    """

    num_sampled: int = 1024
    use_bias: bool = True

    takes_several_labels = True

    def _parts(self, setting, width):
        tokens, size = setting.tokens, setting.compute_itemsize
        table = Table(self.num_classes, width, self.use_bias, setting)
        rows = tokens + self.num_sampled  # looked up: labels and samples
        logits = tokens * (self.num_sampled + 1)
        # Those of the labels are sums of elementwise products.
        products = 2 * tokens * self.num_sampled * width
        elementwise = 2 * tokens * width
        moved = size * (3 * rows * width + 4 * logits)
        return [
            table.part(
                self.name,
                "sampled softmax",
                rows,
                saved_bytes=size * (2 * rows * width + tokens * width)
                + 2 * size * logits,
                tensor_bytes=size * logits,
                forward_bytes=2 * size * logits,
                backward_bytes=2 * size * (rows * width + logits),
                forward=Work(
                    products + elementwise + 6 * logits,
                    moved,
                    30,
                    softmax=logits,
                ),
                backward=Work(
                    2 * products + 2 * elementwise + 2 * logits, 2 * moved, 40
                ),
            )
        ]


@of_layer.register
def _of_sampled_softmax(layer: SampledSoftmax):
    return SampledHead(
        layer.name,
        layer.num_classes,
        min(layer.num_sampled, layer.num_classes),
        layer.rows.use_bias,
        array_bytes=array_bytes(layer),
    )


def full(name, classes, counts, *, use_bias=True):
    """Returns the `FullHead` of N classes, or of the classes of a `Tree`."""
    del counts
    return FullHead(name, passed.num_classes_of(classes), use_bias)


def sampled(name, classes, counts, **options):
    """Returns the `SampledHead` of N classes, or of a `Tree`'s classes."""
    del counts
    return SampledHead(name, passed.num_classes_of(classes), **options)
