"""What a layer asks of its rows, where one variable has them."""

import dataclasses
import typing

from tf_hsm.ops.log_probs import (
    hierarchical_softmax_log_prob,
    hierarchical_softmax_log_probs,
)
from tf_hsm.ops.loss import hierarchical_softmax_loss
from tf_hsm.ops.sample import hierarchical_softmax_sample
from tf_hsm.ops.top_k import best_class, hierarchical_softmax_top_k
from tf_hsm.ops.train_step import hierarchical_softmax_train_step
from tf_hsm.tree import Tree


# No tuple: Keras would take its variables for the layer's.
@dataclasses.dataclass(frozen=True)
class WholeHead:
    """The functions of `tf_hsm.ops` on a tree and its variables."""

    weights: typing.Any
    biases: typing.Any
    tree: Tree
    node_labels: bool = False

    def loss(self, labels, inputs, ignored, visit, **options):
        """The loss per label.

        Args:
          labels: `[...]` integers.
          inputs: `[..., width]`.
          ignored: the list of labels that stand for no class.
          visit: called with each tree, its weights and biases, the labels that
            it is asked for, the list of those that it ignores, and its losses.
          **options: of `hierarchical_softmax_loss`.
        """
        losses = hierarchical_softmax_loss(
            self.weights,
            self.biases,
            labels,
            inputs,
            self.tree,
            ignored,
            nodes=self.node_labels,
            **options,
        )
        visit(self.tree, self.weights, self.biases, labels, ignored, losses)
        return losses

    def train_step(self, labels, inputs, optimizer, **options):
        """The loss per label, and a step in place."""
        return hierarchical_softmax_train_step(
            self.weights,
            self.biases,
            labels,
            inputs,
            self.tree,
            optimizer,
            nodes=self.node_labels,
            **options,
        )

    def log_probs(self, inputs, nodes):
        """Those of all classes, or of all nodes."""
        return hierarchical_softmax_log_probs(
            self.weights, self.biases, inputs, self.tree, nodes
        )

    def log_prob(self, classes, inputs, **options):
        """Those of given classes."""
        return hierarchical_softmax_log_prob(
            self.weights, self.biases, classes, inputs, self.tree, **options
        )

    def top_k(self, inputs, k, beam_width, return_pruned, **options):
        """The best classes."""
        return hierarchical_softmax_top_k(
            self.weights,
            self.biases,
            inputs,
            self.tree,
            k,
            beam_width,
            return_pruned,
            **options,
        )

    def best_class(self, inputs):
        """The most probable class."""
        return best_class(self.weights, self.biases, inputs, self.tree)

    def sample(self, inputs, *args, **options):
        """Classes that are drawn."""
        return hierarchical_softmax_sample(
            self.weights, self.biases, inputs, self.tree, *args, **options
        )
