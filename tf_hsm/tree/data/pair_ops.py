"""The ops of the library that work on pairs, called with arrays."""

import numpy as np
import tensorflow as tf

from tf_hsm.runtime.library import raw_ops


def count_keys(keys, known=(), known_counts=()):
    """Returns distinct keys, ascending, and how often each occurs.

    Args:
      keys: int64 in any order.
      known: distinct int64, ascending, that have been counted before.
      known_counts: their counts.

    Returns:
      Two int64 arrays.
    """
    with tf.init_scope(), tf.device("CPU:0"):
        found = raw_ops.tf_hsm_count_keys(
            keys=keys,
            known=np.asarray(known, np.int64),
            known_counts=np.asarray(known_counts, np.int64),
        )
    return found.distinct.numpy(), found.counts.numpy()


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
                "splits": tf.constant(splits),
                "indices": tf.constant(columns.astype(np.int32)),
                "values": tf.constant(values, tf.float32),
            }

    def times(self, dense):
        """Returns the product with `dense [columns, D]`, float32."""
        return self._product(dense, squared=False)

    def square_times(self, dense):
        """Returns the transpose times `self.times(dense)`."""
        return self._product(dense, squared=True)

    def _product(self, dense, squared):
        with tf.init_scope(), tf.device("CPU:0"):
            return raw_ops.tf_hsm_sparse_product(
                dense=dense.astype(np.float32, copy=False),
                squared=squared,
                **self._entries,
            ).numpy()
