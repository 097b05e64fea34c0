"""The arrays of a tree as tensors, made once per tree."""

import collections
import weakref

import tensorflow as tf

TreeTensors = collections.namedtuple(
    "TreeTensors",
    [
        "group_offsets",
        "group_parents",
        "class_rows",
        "row_groups",
        "class_ranks",
    ],
)

_cache = weakref.WeakKeyDictionary()


def tree_tensors(tree):
    """Returns the int64 tensors that the ops take for `tree`.

    They are eager tensors in host memory whatever graph is being traced, so
    that functions capture them instead of copying them in as constants.
    """
    tensors = _cache.get(tree)
    if tensors is None:
        with tf.init_scope(), tf.device("CPU"):
            tensors = TreeTensors(
                *(tf.constant(getattr(tree, n)) for n in TreeTensors._fields)
            )
            # In a tf.Graph of TensorFlow 1 they belong to that graph.
            if tf.executing_eagerly():
                _cache[tree] = tensors
    return tensors
