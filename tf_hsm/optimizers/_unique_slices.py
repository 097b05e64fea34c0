"""Slices that name each row once, which is what all rules are defined on."""

import tensorflow as tf

from tf_hsm.runtime.arguments import accumulator


class UniqueSlices(tf.IndexedSlices):
    """`tf.IndexedSlices` whose indices do not repeat.

    So the norm of the values is the norm of the dense gradient, and a function
    of each row applies to the values as it would to the dense equivalent.
    """

    def __truediv__(self, divisor):
        """Divides by a number; Keras unscales gradients so."""
        return self.with_values(self.values / divisor)

    def with_values(self, values):
        """Returns slices of the same rows with other values."""
        return UniqueSlices(values, self.indices, self.dense_shape)


def sum_repeated(slices):
    """Sums the values of repeated rows, in float32 at least.

    Costs one comparison per row where the indices are in increasing order, as
    those are that the gradients of the losses have.

    Args:
      slices: `tf.IndexedSlices` with indices `[U]` and values `[U, ...]`.

    Returns:
      `UniqueSlices` of the same dense equivalent.
    """
    if isinstance(slices, UniqueSlices):
        return slices
    indices, values = slices.indices, widen(slices.values)

    def summed():
        rows, positions = tf.unique(indices)
        return rows, tf.math.unsorted_segment_sum(
            values, positions, tf.size(rows)
        )

    rows, values = tf.cond(
        tf.reduce_all(indices[1:] > indices[:-1]),
        lambda: (tf.identity(indices), tf.identity(values)),
        summed,
    )
    return UniqueSlices(values, rows, slices.dense_shape)


def widen(tensor):
    """Casts floating-point types of 16 bits to float32."""
    return tf.cast(tensor, accumulator(tensor.dtype))
