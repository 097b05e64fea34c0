"""The parts of a head, and which of them each example goes to."""

import dataclasses
import typing

import tensorflow as tf

from tf_hsm.heads.tree_head import TreeHead
from tf_hsm.runtime import arguments, row_parts


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A part of a head: a `TreeHead`, perhaps on narrower inputs.

    Attributes:
      head: the `TreeHead`; without variables where another process has them.
      number: 0 for the first part, the others count from 1.
      units: a slice, the rows of the first part above it; of the first part,
        its rows that are classes.
      places: a slice, the places of its classes.
      device: the name of the device of the rows and the products; None: the
        products are made where they are asked for.
      projection: a variable `[width, width of the part]`, or None.
    """

    head: TreeHead
    number: int
    units: slice
    places: slice
    device: str | None = None
    projection: typing.Any = None

    def project(self, inputs):
        """Takes inputs `[..., width]` to inputs of the part.

        The products are made in float32, for float64 weights in float64.
        """
        if self.projection is None:
            return inputs
        dtype = arguments.accumulator(arguments.dtype_of(self.projection))
        product = tf.matmul if self.device is None else _matmul_on(self.device)
        with row_parts.on(self.device):
            return product(
                tf.cast(inputs, dtype),
                tf.cast(arguments.parameter(self.projection), dtype),
            )


class Routes:
    """The part of each example of a batch: one, or none."""

    def __init__(self, parts, count):
        """Takes `parts [B]`: 1 for the first of `count`; 0 for none."""
        self._parts = tf.cast(parts, tf.int32)
        self._count = count + 1
        self._examples = tf.dynamic_partition(
            tf.range(tf.size(parts)), self._parts, self._count
        )

    def split(self, values):
        """Values `[B, ...]` as a list, the values of each part's examples."""
        return tf.dynamic_partition(values, self._parts, self._count)[1:]

    def join(self, values, rest):
        """Puts what each part has, and `rest` for the others, back in order.

        Args:
          values: a list with `[b, ...]` for each part.
          rest: a number.
        """
        rest_of_shape = tf.shape(values[0])[1:]
        shape = tf.concat([tf.shape(self._examples[0]), rest_of_shape], 0)
        others = tf.fill(shape, tf.cast(rest, values[0].dtype))
        return tf.dynamic_stitch(self._examples, [others, *values])


def _matmul_on(device):
    """Returns a product whose gradients are made on a device, as it is itself.

    TensorFlow could otherwise send the matrix to the gradient's device.
    """

    @tf.custom_gradient
    def product(x, matrix):
        def gradient(grads):
            with tf.device(device):
                return (
                    tf.matmul(grads, matrix, transpose_b=True),
                    tf.matmul(x, grads, transpose_a=True),
                )

        return tf.matmul(x, matrix), gradient

    return product
