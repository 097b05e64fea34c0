"""Ops of the library on NumPy arrays: counts of keys, clusters of points.

Trees are made with them. Commands do without TensorFlow until they need one: a
module of `tf_hsm.tree` imports this one within a function.
"""

import contextlib

import numpy as np
import tensorflow as tf

from tf_hsm.runtime import private_tensorflow
from tf_hsm.runtime.library import raw_ops

_MOST = 2**63 - 1  # of an attribute of an op


@contextlib.contextmanager
def eagerly_on_cpu():
    """Runs ops at once, whatever graph is being built and on what device."""
    with private_tensorflow.eager_mode(), tf.device("CPU:0"):
        yield


def count_keys(keys, known=None):
    """Returns distinct keys, ascending, and how often each occurs.

    Args:
      keys: `[n]` int64 in any order.
      known: what the function has returned for other keys, to add to it.

    Returns:
      Two int64 tensors; `np.asarray` shows their numbers without a copy.
    """
    with eagerly_on_cpu():
        if known is None:
            known = tf.zeros([2, 0], tf.int64)
        return raw_ops.tf_hsm_count_keys(
            keys=_tensor(keys), known=known[0], known_counts=known[1]
        )


class Clusters:
    """An order of points, in which runs of places are clusters.

    Attributes:
      order: `[N]` int64, a tensor: the point at each place.
    """

    def __init__(self, points, seed, max_iterations):
        """Starts with the points `[N, D]` float32 in their own order.

        A division of points has at most `max_iterations` steps of Lloyd's
        algorithm, and `seed` decides where it begins.
        """
        with eagerly_on_cpu():
            self.order = tf.range(len(points), dtype=tf.int64)
            self._inputs = {
                "points": _tensor(points),
                "seed": seed & _MOST,
                "max_iterations": min(max_iterations, _MOST),
            }

    def split(self, runs):
        """Divides runs `[P, 3]` into two parts: see `TfHsmSplitPoints`."""
        with eagerly_on_cpu():
            self.order = raw_ops.tf_hsm_split_points(
                order=self.order, runs=runs, **self._inputs
            )

    def exchange(self, starts, sizes, splits, rounds):
        """Exchanges points in families `[F, K]`: see `TfHsmExchangePoints`.

        Returns:
          The new `splits`, whether a pair was divided, and how often a point
          changed its cluster.
        """
        with eagerly_on_cpu():
            self.order, splits, pairs, moved = raw_ops.tf_hsm_exchange_points(
                order=self.order,
                starts=starts,
                sizes=sizes,
                splits=splits,
                rounds=min(rounds, _MOST),
                **self._inputs,
            )
        return splits, np.any(pairs), np.sum(moved)


def _tensor(array):
    """Returns the numbers as a tensor for an op of ours, without a copy.

    The ops of TensorFlow need memory with another alignment.
    """
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
