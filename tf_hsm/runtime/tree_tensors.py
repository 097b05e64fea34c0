"""The arrays of a tree as tensors, made once per tree and machine."""

import collections
import contextlib
import contextvars
import functools
import weakref

import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.runtime.variables import variable_of

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
# For walks from the roots down; row_below: `[R]`, the group below each row, or
# -1 - class of a leaf.
ChildTensors = collections.namedtuple(
    "ChildTensors", ["group_offsets", "row_below", "root_groups"]
)

# For masks, of which `row_spans` are `[R, 2]`.
MaskTensors = collections.namedtuple(
    "MaskTensors", ["class_ranks", "row_spans"]
)

# What stands for an array of the classes where labels are rows.
_OF_ROWS = {"class_rows": "rows", "class_ranks": "row_ranks"}

# tree -> (device, name) -> tensor
_cache = weakref.WeakKeyDictionary()
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


def tree_tensors(tree, near=None, nodes=False, kind=TreeTensors):
    """Returns the int64 tensors that ops take for a tree or forest.

    They are eager tensors in host memory whatever graph is being traced, so
    that functions capture them instead of copying them in as constants.

    Args:
      tree: a `tf_hsm.Tree` or a `tf_hsm.Forest`.
      near: a variable or a tensor. The arrays lie on the first CPU of the task
        of a cluster that has it; else on this machine's.
      nodes: whether labels are rows, of inner nodes too, instead of classes.
      kind: which tensors: `TreeTensors`, of the loss ops, or `PathTensors`.
    """
    _checks.check_is_tree(tree)
    of_labels = _OF_ROWS if nodes else {}
    names = [of_labels.get(name, name) for name in kind._fields]
    return kind(*_tensors(cpu_of(near), tree, names))


def path_tensors(tree, near=None, nodes=False):
    """Returns the arrays that ops which look up paths take."""
    return tree_tensors(tree, near, nodes, PathTensors)


def mask_tensors(tree, near=None):
    """Returns the arrays that tell which classes are below a row."""
    return MaskTensors(*_tensors(cpu_of(near), tree, MaskTensors._fields))


def child_tensors(tree, near=None):
    """Returns the arrays that ops which go down `tree` take."""
    _checks.check_is_tree(tree)
    return ChildTensors(*_tensors(cpu_of(near), tree, ChildTensors._fields))


def array_tensors(owner, names, near=None):
    """Returns arrays that are attributes of any object, as a list of tensors.

    The object, which can be hashed, must not change.
    """
    return _tensors(cpu_of(near), owner, names)


def device_array(owner, name, near):
    """Returns one array as a tensor on the device of a variable `near`."""
    variable = variable_of(near)
    place = cpu_of(near) if variable is None else variable.device
    return _tensors(place, owner, [name])[0]


def _tensors(place, tree, names):
    cache, make = _variables.get(), _variable
    if cache is None:
        cache, make = _cache, tf.constant
    with (
        contextlib.nullcontext() if tf.executing_eagerly() else tf.init_scope()
    ):
        # Unless in a tf.Graph of TensorFlow 1, which has tensors of its own.
        shared = tf.executing_eagerly()
        known = cache.get(tree, {}) if shared else {}
        missing = [name for name in names if (place, name) not in known]
        if missing:
            with tf.device(place):
                made = {
                    (place, n): make(_array(tree, n), name=n) for n in missing
                }
            known = {**known, **made}
            if shared:
                cache[tree] = known
    return [tf.convert_to_tensor(known[place, name]) for name in names]


def cpu_of(near):
    """The name of the first CPU of the task that has a variable or tensor."""
    variable = variable_of(near)
    value = near if variable is None else variable
    return _cpu_beside(getattr(value, "device", None) or "")


@functools.cache
def _cpu_beside(device):
    """The name of the first CPU of the task that has the device."""
    task = tf.DeviceSpec.from_string(device)
    if task.job in (None, "localhost"):
        return "CPU:0"
    return task.replace(device_type="CPU", device_index=0).to_string()


def _variable(array, name):
    return tf.Variable(array, trainable=False, name=name)


def _array(tree, name):
    if name == "rows":
        return np.arange(tree.num_rows)
    if name != "row_below":
        return getattr(tree, name)
    below = tree.row_children.copy()
    below[tree.class_rows] = ~np.arange(tree.num_classes)
    return below
