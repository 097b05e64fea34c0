"""Regularizers and constraints of the rows of heads."""

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


class RowOptions:
    """To be named before `HeadLayer` among the bases of a head.

    A regularizer is a penalty on the rows that a batch touches, those of the
    groups on the paths of its labels, each counted once however many labels
    touch it. So a step still costs its paths, and a row's penalty is in the
    loss as often as the row learns. Keras' own, on all rows at every step,
    would make the gradient dense.

    Args:
      *args: of `HeadLayer`.
      kernel_regularizer: called with the touched rows `[U, width]` of a kernel.
      bias_regularizer: likewise with those of a bias, `[U]`.
      kernel_constraint: applied by the optimizer after its step: those of
        `tf_hsm.optimizers` apply it to the touched rows, Keras' own to all.
      bias_constraint: likewise.
      **kwargs: of `HeadLayer`.
    """

    def __init__(
        self,
        *args,
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        **kwargs,
    ):
        """See the class."""
        super().__init__(*args, **kwargs)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)

    def check_no_row_options(self):
        """Raises a ValueError if there is one, for an update in place."""
        for name in _MODULES:
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} is not possible in an update in place; leave it "
                    "out, or compile the model with the layer's optimizer"
                )

    def add_penalties(
        self, tree, kernel, bias, labels, ignored, losses, nodes=False
    ):
        """Adds the penalties of the touched rows to the model's losses.

        Args:
          tree: a `tf_hsm.Tree`, or the part of one that a device has.
          kernel: the variable of the tree's rows.
          bias: likewise, or None.
          labels: `[...]`, integers.
          ignored: the list of those that are no classes.
          losses: those of the labels, which have been checked for them.
          nodes: whether labels are rows of the tree, instead of classes.
        """
        penalized = self._penalized(kernel, bias)
        if not penalized:
            return
        counted = arguments.counted(labels, ignored)
        if counted is not None:
            labels = tf.boolean_mask(labels, counted)
        with tf.control_dependencies([losses]):
            rows = touched_rows(tree, tf.reshape(labels, [-1]), kernel, nodes)
        for regularizer, variable in penalized:
            self._add_penalty(regularizer, tf.gather(variable.value, rows))

    def add_penalties_of(self, weights, biases):
        """Adds the penalties of touched rows that have been gathered.

        Args:
          weights: `[U, width]`.
          biases: `[U]`, or None.
        """
        for regularizer, values in self._penalized(weights, biases):
            self._add_penalty(regularizer, values)

    def _penalized(self, kernel, bias):
        """Those of the two that have a penalty, each with its regularizer."""
        if not self.trainable:
            return []
        pairs = (
            (self.kernel_regularizer, kernel),
            (self.bias_regularizer, bias),
        )
        return [
            (regularizer, values)
            for regularizer, values in pairs
            if regularizer is not None and values is not None
        ]

    def _add_penalty(self, regularizer, values):
        self.add_to_losses(regularizer(tf.cast(values, self.loss_dtype)))

    def get_config(self):
        """Returns the arguments of the constructor."""
        options = {
            name: module.serialize(getattr(self, name))
            for name, module in _MODULES.items()
        }
        return {**super().get_config(), **options}


def touched_rows(tree, labels, near=None, nodes=False):
    """Returns the rows of all groups on the paths of labels `[B]`.

    They are unique and ascend; the cost is that of the paths. Of a pinned tree
    they are those of the weights, which are the groups. The tree's arrays
    are on the machine that has the variable `near`. Labels are classes; or,
    with `nodes`, rows.
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
