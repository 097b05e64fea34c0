"""Ops of the library on NumPy arrays: counts, sparse products, clusters.

Trees are made with them. Commands do without TensorFlow until they need one: a
module of `tf_hsm.tree` imports this one within a function.
"""

import numpy as np
import tensorflow as tf

from tf_hsm.runtime.library import raw_ops


def count_keys(keys, known=None):
    """Returns distinct keys, ascending, and how often each occurs.

    Args:
      keys: `[n]` int64 in any order.
      known: what the function has returned for other keys, to add to it.

    Returns:
      Two int64 tensors; `np.asarray` shows their numbers without a copy.
    """
    with tf.init_scope(), tf.device("CPU:0"):
        if known is None:
            known = tf.zeros([2, 0], tf.int64)
        return raw_ops.tf_hsm_count_keys(
            keys=_tensor(keys), known=known[0], known_counts=known[1]
        )


class SparseMatrix:
    """A matrix of float32 that has few entries.

    Each sum of a product has one order, whatever the number of threads.
    """

    def __init__(self, rows, columns, values, num_rows):
        """Takes the row, the column and the value of each entry.

        Rows ascend.
        """
        splits = np.zeros(num_rows + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=num_rows), out=splits[1:])
        with tf.init_scope(), tf.device("CPU:0"):
            self._entries = {
                "splits": _tensor(splits),
                "indices": _tensor(columns.astype(np.int32)),
                "values": _tensor(values.astype(np.float32)),
            }

    def times(self, dense):
        """Returns the product with `dense [columns, D]`, float32."""
        return self._product(dense, squared=False)

    def square_times(self, dense):
        """Returns the transpose times `self.times(dense)`."""
        return self._product(dense, squared=True)

    def _product(self, dense, squared):
        with tf.init_scope(), tf.device("CPU:0"):
            product = raw_ops.tf_hsm_sparse_product(
                dense=dense.astype(np.float32), squared=squared, **self._entries
            )
        return np.asarray(product)


class Clusters:
    """An order of points, in which runs of places are clusters.

    Attributes:
      order: `[N]` int64, a tensor: the point at each place.
    """

    def __init__(self, points, start, max_iterations):
        """Starts with the points `[N, D]` float32 in their own order.

        `start [D]` is where searches for directions begin, and a division of
        points has at most `max_iterations` steps of Lloyd's algorithm.
        """
        with tf.init_scope(), tf.device("CPU:0"):
            self.order = tf.range(len(points), dtype=tf.int64)
            self._inputs = {
                "points": _tensor(points),
                "start": start,
                "max_iterations": max_iterations,
            }

    def split(self, runs):
        """Divides runs `[P, 3]` into two parts: see `TfHsmSplitPoints`."""
        with tf.init_scope(), tf.device("CPU:0"):
            self.order = raw_ops.tf_hsm_split_points(
                order=self.order, runs=runs, **self._inputs
            )

    def exchange(self, starts, sizes, splits, rounds):
        """Exchanges points in families `[F, K]`: see `TfHsmExchangePoints`.

        Returns:
          The new `splits`, whether a pair was divided, and how often a point
          changed its cluster.
        """
        with tf.init_scope(), tf.device("CPU:0"):
            self.order, splits, pairs, moved = raw_ops.tf_hsm_exchange_points(
                order=self.order,
                starts=starts,
                sizes=sizes,
                splits=splits,
                rounds=rounds,
                **self._inputs,
            )
        return splits, np.any(pairs), np.sum(moved)


def _tensor(array):
    """Returns the numbers as a tensor for an op of ours, without a copy.

    The ops of TensorFlow need memory with another alignment.
    """
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
