"""Regularizers and constraints of the rows of heads."""

import dataclasses
import typing

import keras
import tensorflow as tf

from tf_hsm.runtime import arguments
from tf_hsm.runtime.tree_tensors import tree_tensors

_MODULES = {
    "kernel_regularizer": keras.regularizers,
    "bias_regularizer": keras.regularizers,
    "kernel_constraint": keras.constraints,
    "bias_constraint": keras.constraints,
}


@dataclasses.dataclass(eq=False)
class RowOptions:
    """Options for the rows that a batch touches.

    A regularizer is a penalty on the rows of the groups on the paths of the
    labels, each counted once however many labels touch it. So a step still
    costs its paths, and the loss has the penalty of a row as often as the row
    learns. Keras' own penalty, on all rows at every step, would make the
    gradient dense.

    Attributes:
      kernel_regularizer: called with the touched rows `[U, width]` of a kernel.
      bias_regularizer: called with the touched biases `[U]`.
      kernel_constraint: applied to a kernel by the optimizer after its step:
        the optimizers of `tf_hsm.optimizers` apply it to the touched rows,
        Keras' own to all rows.
      bias_constraint: applied to biases in the same way.
    """

    kernel_regularizer: typing.Any = None
    bias_regularizer: typing.Any = None
    kernel_constraint: typing.Any = None
    bias_constraint: typing.Any = None

    def __post_init__(self):
        """Makes objects of names and configs."""
        for name, module in _MODULES.items():
            setattr(self, name, module.get(getattr(self, name)))
        regularizers = (self.kernel_regularizer, self.bias_regularizer)
        self.has_regularizer = any(r is not None for r in regularizers)

    def check_none(self):
        """Raises a ValueError if there is one, for an update in place."""
        for name in _MODULES:
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} is not possible in an update in place; leave it "
                    "out, or compile the model with the layer's optimizer"
                )

    def get_config(self):
        """Returns the options as JSON can hold them."""
        return {
            name: module.serialize(getattr(self, name))
            for name, module in _MODULES.items()
        }


@dataclasses.dataclass(frozen=True, eq=False)
class Penalties:
    """Adds the penalties of touched rows to the losses of a layer's model.

    Attributes:
      options: the `RowOptions`.
      add: a function that adds a scalar to the losses of the model.
      dtype: the type of the penalties.
    """

    options: RowOptions
    add: typing.Callable
    dtype: str

    def of_paths(self, head, batch, losses):
        """Penalizes the rows on the paths of labels.

        Args:
          head: what has the rows: `tree`, `weights` and `biases`.
          batch: a `Batch` with their labels.
          losses: the losses of the labels, whose op has checked the labels.
        """
        penalized = self._penalized(head.weights, head.biases)
        if not penalized:
            return
        labels, nodes = batch.labels, batch.path.nodes
        counted = arguments.counted(labels, batch.ignored)
        if counted is not None:
            labels = tf.boolean_mask(labels, counted)
        labels = tf.reshape(labels, [-1])
        with tf.control_dependencies([losses]):
            rows = touched_rows(head.tree, labels, head.weights, nodes)
        for regularizer, variable in penalized:
            self._add(
                regularizer, tf.gather(arguments.parameter(variable), rows)
            )

    def of_rows(self, weights, biases):
        """Penalizes gathered rows `[U, width]`, and biases `[U]` or None."""
        for regularizer, values in self._penalized(weights, biases):
            self._add(regularizer, values)

    def _penalized(self, weights, biases):
        """Returns weights and biases that have a regularizer, beside it."""
        pairs = (
            (self.options.kernel_regularizer, weights),
            (self.options.bias_regularizer, biases),
        )
        return [
            (regularizer, values)
            for regularizer, values in pairs
            if regularizer is not None and values is not None
        ]

    def _add(self, regularizer, values):
        self.add(regularizer(tf.cast(values, self.dtype)))


def touched_rows(tree, labels, near=None, nodes=False):
    """Returns the rows of all groups on the paths of labels `[B]`.

    The rows are unique and ascend; for a pinned tree they are rows of weights,
    one for each group. The cost is the cost of the paths.

    Args:
      tree: a `Tree` or a `Forest`.
      labels: classes.
      near: a variable; the tree's arrays are on the machine that has it.
      nodes: whether labels are rows of the tree instead of classes.
    """
    tensors = tree_tensors(tree, near, nodes)

    def climb(i, rows, groups):
        level = tf.unique(tf.gather(tensors.row_groups, rows)).y
        above = tf.gather(tensors.group_parents, level)
        return i + 1, tf.boolean_mask(above, above >= 0), groups.write(i, level)

    groups = tf.TensorArray(
        tf.int64, 1, dynamic_size=True, infer_shape=False, element_shape=[None]
    )
    # An empty batch has no levels.
    groups = groups.write(0, tf.zeros([0], tf.int64))
    rows = tf.gather(tensors.class_rows, labels)
    _, _, groups = tf.while_loop(
        lambda _, rows, groups: tf.size(rows) > 0,
        climb,
        [1, rows, groups],
        [tf.TensorShape([]), tf.TensorShape([None]), None],
    )
    groups = tf.sort(tf.unique(groups.concat()).y)
    if tree.pinned:
        return groups
    return tf.ragged.range(
        tf.gather(tensors.group_offsets, groups),
        tf.gather(tensors.group_offsets, groups + 1),
    ).flat_values
