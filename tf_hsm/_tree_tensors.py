"""The arrays of a tree as tensors, made once per tree."""

import collections
import weakref

import numpy as np
import tensorflow as tf

from tf_hsm import _tree_arrays

# For walks from a class up.
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
# For walks from the root down; row_below: `[R]`, the group below each row, or
# -1 - class of a leaf.
DescentTensors = collections.namedtuple(
    "DescentTensors", ["group_offsets", "row_below"]
)

_cache = weakref.WeakKeyDictionary()  # tree -> name -> tensor


def tree_tensors(tree):
    """Returns the int64 tensors that the loss ops take for `tree`.

    They are eager tensors in host memory whatever graph is being traced, so
    that functions capture them instead of copying them in as constants.
    """
    return TreeTensors(*_tensors(tree, TreeTensors._fields))


def descent_tensors(tree):
    """Returns those of the ops that go down `tree`, likewise."""
    return DescentTensors(*_tensors(tree, DescentTensors._fields))


def _tensors(tree, names):
    known = _cache.get(tree, {})
    missing = [name for name in names if name not in known]
    if missing:
        with tf.init_scope(), tf.device("CPU"):
            made = {name: tf.constant(_array(tree, name)) for name in missing}
            known = {**known, **made}
            # In a tf.Graph of TensorFlow 1 they belong to that graph.
            if tf.executing_eagerly():
                _cache[tree] = known
    return [known[name] for name in names]


def _array(tree, name):
    if name != "row_below":
        return getattr(tree, name)
    below = _tree_arrays.inverse(tree.num_rows, tree.group_parents[1:], 1)
    below[tree.class_rows] = ~np.arange(tree.num_classes)
    return below
