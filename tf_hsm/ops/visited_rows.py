"""Log-probabilities by weights in a NumPy array, which may lie in a file.

A call reads the groups on the paths of its classes alone, and makes a small
tree of them for the op.
"""

import numpy as np
import tensorflow as tf

from tf_hsm.runtime import arguments, call

_ARRAYS = (
    "group_offsets",
    "row_below",
    "root_groups",
    "group_parents",
    "class_rows",
    "row_groups",
)


def log_probs(weights, biases, classes, inputs, tree, optional, options):
    """Returns log-probabilities `[..., C]` of classes, in nats.

    Args:
      weights: `[rows, width]` float32, a NumPy array.
      biases: `[rows]`, or None.
      classes: `[..., C]`, int64.
      inputs: `[..., width]`, float32.
      tree: a `tf_hsm.Tree`, or a `tf_hsm.Forest`.
      optional: see `call.forward`.
      options: further arguments of the op `tf_hsm_class_log_probs`.
    """

    def read(classes):
        small = SmallTree(tree, classes)
        read = small.groups if tree.pinned else small.rows
        arrays = [getattr(small, name) for name in _ARRAYS]
        return [_rows_of(weights, read), read, small.classes, *arrays]

    types = [tf.float32, *[tf.int64] * (2 + len(_ARRAYS))]
    rows, read_rows, places, *arrays = tf.numpy_function(
        read, [classes], types, stateful=False
    )
    for array in (read_rows, *arrays):
        array.set_shape([None])
    rows.set_shape([None, weights.shape[1]])
    if biases is not None:
        biases = tf.gather(tf.convert_to_tensor(biases), read_rows)
    arrays = dict(zip(_ARRAYS, arrays, strict=True))
    return call.forward(
        "tf_hsm_class_log_probs",
        rows,
        biases,
        inputs,
        optional,
        root_groups=[arrays.pop("root_groups")],
        scales=[],
        pinned=tree.pinned,
        classes=tf.ensure_shape(places, classes.shape),
        **{
            **options,
            "logit_soft_cap": arguments.soft_cap(options.get("logit_soft_cap")),
        },
        **arrays,
    )


class SmallTree:
    """The groups of a tree or forest on the paths of some classes.

    A row above a group that is left out is a leaf of the small tree. Labels of
    the small tree are its rows.

    Attributes:
      groups: the numbers in the tree of its groups, ascending.
      rows: the numbers in the tree of its rows, ascending.
      classes: the rows of the small tree that are the classes.
      group_offsets, group_parents, row_groups, row_below, root_groups: see
        `tf_hsm.runtime.tree_tensors`.
      class_rows: the numbers 0 to R - 1 of its rows.
    """

    def __init__(self, tree, classes):
        """Finds the groups on the paths of classes, an array of any shape."""
        leaves = tree.class_rows[classes]
        is_visited = np.zeros(tree.num_groups, bool)
        is_visited[tree.root_groups] = True
        rows = np.unique(leaves)
        while rows.size:
            groups = np.unique(tree.row_groups[rows])
            is_visited[groups] = True
            rows = tree.group_parents[groups]
            rows = rows[rows >= 0]
        self.groups = np.flatnonzero(is_visited)
        firsts = tree.group_offsets[self.groups]
        sizes = tree.group_offsets[self.groups + 1] - firsts
        self.group_offsets = np.append(0, np.cumsum(sizes))
        self.row_groups = np.repeat(np.arange(self.groups.size), sizes)
        self.class_rows = np.arange(self.group_offsets[-1])
        shifts = firsts - self.group_offsets[:-1]
        self.rows = self.class_rows + shifts[self.row_groups]
        self.classes = np.searchsorted(self.rows, leaves)
        parents = tree.group_parents[self.groups]
        self.root_groups = np.flatnonzero(parents < 0)
        self.group_parents = np.where(
            parents < 0, -1, np.searchsorted(self.rows, parents)
        )
        below = np.full(self.rows.size, -1)
        inner = np.flatnonzero(parents >= 0)
        below[self.group_parents[inner]] = inner
        is_leaf = below < 0
        below[is_leaf] = ~np.arange(is_leaf.sum())
        self.row_below = below


def _rows_of(weights, rows):
    """Returns rows of an array; reads rows side by side in one piece."""
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    begins = np.append(0, cuts)
    ends = np.append(cuts, rows.size)
    found = np.empty([rows.size, weights.shape[1]], np.float32)
    for begin, end in zip(begins, ends, strict=True):
        found[begin:end] = weights[rows[begin] : rows[end - 1] + 1]
    return found
