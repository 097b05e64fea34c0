"""A hierarchical softmax over one tree: weights, losses and answers."""

import dataclasses
import typing

import numpy as np

from tf_hsm.ops.log_probs import (
    hierarchical_softmax_log_prob,
    hierarchical_softmax_log_probs,
)
from tf_hsm.ops.loss import hierarchical_softmax_loss
from tf_hsm.ops.sample import hierarchical_softmax_sample
from tf_hsm.ops.top_k import best_class, hierarchical_softmax_top_k
from tf_hsm.ops.train_step import hierarchical_softmax_train_step
from tf_hsm.runtime.tree_tensors import array_tensors
from tf_hsm.tree import Forest, Tree


class RowShares:
    """The prior of label smoothing, which graphs capture instead of copying.

    Attributes:
      shares: `[R]` float32, the share of each row in its group.
    """

    def __init__(self, shares):
        """Takes the shares `[R]`."""
        self.shares = shares.astype(np.float32)

    def tensor(self, near):
        """Returns the shares as a tensor on the machine of a variable."""
        (tensor,) = array_tensors(self, ["shares"], near)
        return tensor


# A tuple would do, but Keras would take its variables for a layer's.
@dataclasses.dataclass(frozen=True, eq=False)
class TreeHead:
    """A hierarchical softmax in one object, without Keras.

    >>> tree = tf_hsm.Tree.two_level(1_000_000)
    >>> weights = tf.Variable(tf.random.normal([tree.num_rows, 64]))
    >>> head = tf_hsm.TreeHead(weights, None, tree)
    >>> with tf.GradientTape() as tape:
    ...     loss = tf.reduce_mean(head.loss(labels, inputs))
    >>> log_probs, classes = head.top_k(inputs, 10)

    Each method is the function `tf_hsm.hierarchical_softmax_*` of its name, for
    the weights, biases and tree of the head. The function documents arguments
    and errors.

    Attributes:
      weights: `[tree.num_weight_rows, width]`, a tensor or a variable.
      biases: `[tree.num_weight_rows]`, or None.
      tree: a `tf_hsm.Tree`, or a `tf_hsm.Forest`.
    """

    weights: typing.Any
    biases: typing.Any
    tree: Tree | Forest

    @property
    def num_classes(self):
        """N, the number of classes."""
        return self.tree.num_classes

    def loss(
        self,
        labels,
        inputs,
        *,
        ignore_class=None,
        label_smoothing=0.0,
        smoothing_prior=None,
        nodes=False,
    ):
        """Returns -log p(label | inputs), `[...]`, in nats.

        See `tf_hsm.hierarchical_softmax_loss`.
        """
        return hierarchical_softmax_loss(
            self.weights,
            self.biases,
            labels,
            inputs,
            self.tree,
            ignore_class=ignore_class,
            label_smoothing=label_smoothing,
            nodes=nodes,
            smoothing_prior=smoothing_prior,
        )

    def train_step(
        self,
        labels,
        inputs,
        optimizer,
        *,
        loss_weights=None,
        ignore_class=None,
        stochastic_rounding=None,
        seed=0,
        label_smoothing=0.0,
        smoothing_prior=None,
        nodes=False,
    ):
        """Returns the losses `[...]` in nats, and updates the weights in place.

        See `tf_hsm.hierarchical_softmax_train_step`.
        """
        return hierarchical_softmax_train_step(
            self.weights,
            self.biases,
            labels,
            inputs,
            self.tree,
            optimizer,
            loss_weights=loss_weights,
            ignore_class=ignore_class,
            stochastic_rounding=stochastic_rounding,
            seed=seed,
            label_smoothing=label_smoothing,
            nodes=nodes,
            smoothing_prior=smoothing_prior,
        )

    def losses(self, batch):
        """See `tf_hsm.heads.head.Head`."""
        if batch.step is not None:
            return self.step_part(batch).losses(batch.inputs)
        losses = self.loss(
            batch.labels,
            batch.inputs,
            ignore_class=batch.ignored,
            **self._path_arguments(batch.path),
        )
        if batch.penalties is not None:
            batch.penalties.of_paths(self, batch, losses)
        return losses

    def step_part(self, batch):
        """Returns the part of `batch.step` that updates this head."""
        return batch.step.part(
            weights=self.weights,
            biases=self.biases,
            labels=batch.labels,
            tree=self.tree,
            loss_weights=batch.loss_weights,
            ignore_class=batch.ignored,
            **self._path_arguments(batch.path),
        )

    def _path_arguments(self, path):
        prior = path.smoothing_prior
        return {
            "label_smoothing": path.label_smoothing,
            "nodes": path.nodes,
            "smoothing_prior": prior and prior.tensor(self.weights),
        }

    def prior(self, counts):
        """See `tf_hsm.heads.head.Head`."""
        return RowShares(self.tree.row_shares(counts))

    def log_probs(self, inputs, *, nodes=False, root_log_probs=None):
        """Returns log-probabilities `[..., N]` of all classes, in nats.

        See `tf_hsm.hierarchical_softmax_log_probs`.
        """
        return hierarchical_softmax_log_probs(
            self.weights,
            self.biases,
            inputs,
            self.tree,
            nodes=nodes,
            root_log_probs=root_log_probs,
        )

    def log_prob(
        self,
        classes,
        inputs,
        *,
        nodes=False,
        allowed=None,
        renormalize=False,
        root_log_probs=None,
    ):
        """Returns log-probabilities of given classes `[..., C]`, in nats.

        See `tf_hsm.hierarchical_softmax_log_prob`.
        """
        return hierarchical_softmax_log_prob(
            self.weights,
            self.biases,
            classes,
            inputs,
            self.tree,
            root_log_probs=root_log_probs,
            nodes=nodes,
            allowed=allowed,
            renormalize=renormalize,
        )

    def top_k(
        self,
        inputs,
        k,
        *,
        beam_width=None,
        return_pruned=False,
        threshold=None,
        bounds=None,
        allowed=None,
        renormalize=False,
        root_log_probs=None,
    ):
        """Returns the k best classes, `(log_probs, classes)` of `[..., k]`.

        See `tf_hsm.hierarchical_softmax_top_k`.
        """
        return hierarchical_softmax_top_k(
            self.weights,
            self.biases,
            inputs,
            self.tree,
            k,
            beam_width=beam_width,
            return_pruned=return_pruned,
            root_log_probs=root_log_probs,
            threshold=threshold,
            bounds=bounds,
            allowed=allowed,
            renormalize=renormalize,
        )

    def best_class(self, inputs):
        """Returns the most probable class of each input, `[...]` int64."""
        return best_class(self.weights, self.biases, inputs, self.tree)

    def sample(
        self,
        inputs,
        num_samples,
        *,
        seed=None,
        temperature=1.0,
        top_k=None,
        top_p=None,
        allowed=None,
        root_log_probs=None,
    ):
        """Returns classes drawn by their probabilities, `[..., num_samples]`.

        See `tf_hsm.hierarchical_softmax_sample`.
        """
        return hierarchical_softmax_sample(
            self.weights,
            self.biases,
            inputs,
            self.tree,
            num_samples,
            seed=seed,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            root_log_probs=root_log_probs,
            allowed=allowed,
        )

    def variables(self):
        """Returns the weights and, if there are any, the biases."""
        return [v for v in (self.weights, self.biases) if v is not None]

    def on_one_device(self):
        """Returns this head, whose rows are on one device."""
        return self
