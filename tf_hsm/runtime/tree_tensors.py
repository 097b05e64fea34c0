"""The arrays of a tree as tensors, made once per tree."""

import collections
import contextlib
import contextvars
import weakref

import numpy as np
import tensorflow as tf

from tf_hsm.tree import arrays

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
# For the paths of given classes.
PathTensors = collections.namedtuple(
    "PathTensors", ["group_parents", "class_rows", "row_groups"]
)
# For walks from the root down; row_below: `[R]`, the group below each row, or
# -1 - class of a leaf.
ChildTensors = collections.namedtuple(
    "ChildTensors", ["group_offsets", "row_below"]
)

_cache = weakref.WeakKeyDictionary()  # tree -> name -> tensor
# Such a cache of variables, or None.
_variables = contextvars.ContextVar("_variables", default=None)


@contextlib.contextmanager
def kept_in_variables():
    """Functions that are traced within read the arrays from variables.

    A SavedModel keeps captured tensors in its graph, which is read in one piece
    and cannot pass 2 GB, but variables in files of their own. The variables
    live as long as the scope, or what tracks them.
    """
    token = _variables.set({})
    try:
        yield
    finally:
        _variables.reset(token)


def tree_tensors(tree):
    """Returns the int64 tensors that the loss ops take for `tree`.

    They are eager tensors in host memory whatever graph is being traced, so
    that functions capture them instead of copying them in as constants.
    """
    return TreeTensors(*_tensors(tree, TreeTensors._fields))


def path_tensors(tree):
    """Returns those that the ops that look up paths take, likewise."""
    return PathTensors(*_tensors(tree, PathTensors._fields))


def child_tensors(tree):
    """Returns those that the ops that go down `tree` take, likewise."""
    return ChildTensors(*_tensors(tree, ChildTensors._fields))


def _tensors(tree, names):
    cache, make = _variables.get(), _variable
    if cache is None:
        cache, make = _cache, tf.constant
    with (
        contextlib.nullcontext() if tf.executing_eagerly() else tf.init_scope()
    ):
        # Unless in a tf.Graph of TensorFlow 1, which has tensors of its own.
        shared = tf.executing_eagerly()
        known = cache.get(tree, {}) if shared else {}
        missing = [name for name in names if name not in known]
        if missing:
            with tf.device("CPU:0"):
                made = {n: make(_array(tree, n), name=n) for n in missing}
            known = {**known, **made}
            if shared:
                cache[tree] = known
    return [tf.convert_to_tensor(known[name]) for name in names]


def _variable(array, name):
    return tf.Variable(array, trainable=False, name=name)


def _array(tree, name):
    if name != "row_below":
        return getattr(tree, name)
    below = arrays.inverse(tree.num_rows, tree.group_parents[1:], 1)
    below[tree.class_rows] = ~np.arange(tree.num_classes)
    return below
