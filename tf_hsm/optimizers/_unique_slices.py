"""Slices that name each row once, which is what all rules are defined on."""

import tensorflow as tf

from tf_hsm.runtime import gradients
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


class SummedSlices(UniqueSlices):
    """The rows of a gradient, summed over all replicas: alike on each.

    Optimizers that layers take in place have them, which do not clip.

    Args:
      values: `[U, ...]`, the sums.
      indices: `[U]`, the rows of the variable.
      dense_shape: the shape of the variable.
      seed: a scalar int64, by which the step rounds weights at random, alike on
        all replicas; None to round to nearest.
    """

    def __init__(self, values, indices, dense_shape, seed=None):
        super().__init__(values, indices, dense_shape)
        self.seed = seed

    def with_values(self, values):
        """Returns slices of the same rows with other values."""
        return SummedSlices(values, self.indices, self.dense_shape, self.seed)


def sum_over_replicas(replica, slices, sums_all_rows, seeds):
    """Sums gradients of the same rows over the replicas.

    Args:
      replica: the replica's context.
      slices: a list of `tf.IndexedSlices` with the same indices `[U]`, of
        variables with the same number of rows.
      sums_all_rows: whether to sum all rows, or to gather those that are there.
      seeds: a seed or None for each of the slices, see `SummedSlices`.

    Returns:
      A list of `SummedSlices` with the rows that any replica has.
    """
    if sums_all_rows:
        sums = _sums_of_all_rows(replica, slices)
    else:
        marked = map(gradients.mark_stand_ins, slices)
        widened = [
            tf.IndexedSlices(widen(g.values), g.indices, g.dense_shape)
            for g in marked
        ]
        sums = replica.all_reduce(tf.distribute.ReduceOp.SUM, widened)
        sums = [
            sum_repeated(gradients.without_stand_ins(total)) for total in sums
        ]
    return [
        SummedSlices(total.values, total.indices, total.dense_shape, seed)
        for total, seed in zip(sums, seeds, strict=True)
    ]


def _sums_of_all_rows(replica, slices):
    """The sums as tensors of all rows travel, which have one shape."""
    marked = gradients.mark_stand_ins(slices[0])
    rows, size = marked.indices, slices[0].dense_shape[0]
    values = [widen(of_rows.values) for of_rows in slices]
    values.append(tf.ones_like(rows, values[0].dtype))
    # Row -1 stands for none, and is dropped.
    dense = [tf.math.unsorted_segment_sum(v, rows, size) for v in values]
    *sums, counts = replica.all_reduce(tf.distribute.ReduceOp.SUM, dense)
    touched = tf.reshape(tf.where(counts > 0), [-1])
    touched = tf.cast(touched, rows.dtype)
    return [
        UniqueSlices(tf.gather(total, touched), touched, of_rows.dense_shape)
        for total, of_rows in zip(sums, slices, strict=True)
    ]


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
