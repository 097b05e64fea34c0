"""A probabilistic label tree: any number of labels for each input."""

import dataclasses
import functools
import typing

import tensorflow as tf

from tf_hsm.heads import quantized_losses
from tf_hsm.heads.tree_head import HeadOfTree
from tf_hsm.ops.label_tree_ops import (
    label_tree_log_prob,
    label_tree_loss_outputs,
    label_tree_top_k,
)
from tf_hsm.runtime import arguments
from tf_hsm.runtime.quantized_rows import QuantizedRows
from tf_hsm.tree import Tree


@dataclasses.dataclass(frozen=True, eq=False)
class LabelTreeHead(HeadOfTree):
    """The functions `tf_hsm.label_tree_*` for one tree and its weights.

    Attributes:
      weights: `[tree.num_rows, width]`, a tensor, a variable or
        `QuantizedRows`.
      biases: `[tree.num_rows]`, or None.
      tree: a `tf_hsm.Tree`, whose classes are the labels.
    """

    weights: typing.Any
    biases: typing.Any
    tree: Tree

    def losses(self, batch):
        """Returns the loss `[...]` of each label set `[..., M]`, in nats."""
        if isinstance(self.weights, QuantizedRows):
            return quantized_losses.label_set_losses(self, self._groups, batch)
        forward = functools.partial(self._loss_outputs, batch.labels)
        inputs = arguments.dense("inputs", batch.inputs)
        return self._losses_by(forward, inputs, batch)

    def _loss_outputs(self, labels, inputs):
        return label_tree_loss_outputs(
            self.weights, self.biases, labels, inputs, self.tree
        )

    @functools.cached_property
    def _groups(self):
        return quantized_losses.groups_of(self.tree)

    def log_probs(self, inputs, *, nodes=False):
        """Returns log-probabilities `[..., N]` of all labels, in nats.

        With `nodes`, `[..., rows]` of all rows. They have no gradient.
        """
        inputs = tf.convert_to_tensor(inputs)
        count = self.tree.num_rows if nodes else self.num_classes
        shape = tf.concat([tf.shape(inputs)[:-1], [count]], 0)
        classes = tf.broadcast_to(tf.range(count), shape)
        return self.log_prob(classes, inputs, nodes=nodes)

    def log_prob(self, classes, inputs, *, nodes=False, allowed=None):
        """Returns log-probabilities of given labels `[..., C]`, in nats.

        See `tf_hsm.label_tree_log_prob`.
        """
        return label_tree_log_prob(
            self.weights,
            self.biases,
            classes,
            inputs,
            self.tree,
            nodes=nodes,
            allowed=allowed,
        )

    def top_k(
        self,
        inputs,
        k,
        *,
        threshold=None,
        beam_width=None,
        return_pruned=False,
        bounds=None,
        allowed=None,
        rescore=None,
    ):
        """Returns the k best labels, `(log_probs, classes)` of `[..., k]`.

        See `tf_hsm.label_tree_top_k`.
        """
        return label_tree_top_k(
            self.weights,
            self.biases,
            inputs,
            self.tree,
            k,
            beam_width=beam_width,
            return_pruned=return_pruned,
            threshold=threshold,
            bounds=bounds,
            allowed=allowed,
            rescore=rescore,
        )

    def best_class(self, inputs):
        """Returns the most probable label of each input, `[...]` int64."""
        return self.top_k(inputs, 1).classes[..., 0]

    def rows_for(self, tree):
        """Returns the row of this tree that each row of another continues.

        Where a leaf became an inner node above its label, the inner row
        continues the leaf's: the probability of a label at or below it, given
        one below its parent, is at first what the label's was.

        Returns:
          `[R]`, or -1: see `Tree.map_rows`.
        """
        return tree.map_rows(self.tree, from_top=True)
