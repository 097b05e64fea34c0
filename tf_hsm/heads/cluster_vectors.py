"""The rows of an adaptive softmax as an input embedding.

Baevski and Auli, 2019: Adaptive Input Representations for Neural Language
Modeling.
"""

import tensorflow as tf

from tf_hsm.partition import routing
from tf_hsm.runtime import arguments
from tf_hsm.runtime.tree_tensors import path_tensors


def vectors(head, classes, look_up):
    """Returns the vectors `[..., width]` of classes `[...]`.

    The vector of a class is its row: in the shortlist as it is; in a tail,
    which is narrower, multiplied by the transposed projection. Only the rows of
    the given classes are read.

    Args:
      head: a `ClusterHead`.
      classes: integers.
      look_up: a function from a variable and `rows [B]` to these rows.

    Raises:
      tf.errors.InvalidArgumentError: a class is not in [0, num_classes).
      TypeError: classes are not integers.
    """
    classes = arguments.integers(classes, "classes")
    flat = tf.reshape(classes, [-1])
    ranks = head.clusters.ranks(flat, "classes")
    tails = head.clusters.tails(ranks)
    kernel = head.shortlist.weights
    dtype = arguments.accumulator(arguments.dtype_of(kernel))
    width = kernel.shape[1]
    result = tf.zeros([tf.size(flat), width], dtype)
    routes = routing.routes(tails, 1 + len(head.parts), first=-1)
    for tail, route in zip([None, *head.parts], routes, strict=True):
        own = route.take(ranks)
        if tail is None:
            found = tf.cast(look_up(kernel, own), dtype)
        else:
            found = _tail_vectors(tail, own - tail.places.start, look_up, dtype)
        result = route.add(result, found)
    return tf.reshape(result, tf.concat([tf.shape(classes), [width]], 0))


def _tail_vectors(tail, classes, look_up, dtype):
    """The vectors `[B, width]` of classes `[B]` of a tail."""
    class_rows = path_tensors(tail.head.tree).class_rows
    rows = look_up(tail.head.weights, tf.gather(class_rows, classes))
    with tf.device(tail.device):
        rows = tf.cast(rows, dtype)
        if tail.projection is None:
            return rows
        return tf.matmul(
            rows,
            tf.cast(arguments.parameter(tail.projection), dtype),
            transpose_b=True,
        )
