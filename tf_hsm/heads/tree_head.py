"""A hierarchical softmax over one tree: weights, losses and answers."""

import dataclasses
import functools
import typing

import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.heads import quantized_losses
from tf_hsm.ops.log_probs import (
    hierarchical_softmax_log_prob,
    hierarchical_softmax_log_probs,
)
from tf_hsm.ops.loss import hierarchical_softmax_loss, loss_outputs
from tf_hsm.ops.sample import hierarchical_softmax_sample
from tf_hsm.ops.top_k import best_class, hierarchical_softmax_top_k
from tf_hsm.ops.train_step import hierarchical_softmax_train_step
from tf_hsm.runtime import arguments, gradients, quantized_rows
from tf_hsm.runtime.quantized_rows import QuantizedRows
from tf_hsm.runtime.tree_tensors import device_array
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
        """The shares as a tensor on a variable's device, or on the CPU."""
        return device_array(self, "shares", near)


class HeadOfTree:
    """A head whose rows are of one tree: `weights`, `biases` and `tree`."""

    @property
    def num_classes(self):
        """N, the number of classes, or of labels."""
        return self.tree.num_classes

    def _losses_by(self, forward, inputs, batch):
        """Returns the losses of a `Batch`, or makes its step in the gradient.

        The function `forward` takes inputs to what `loss_outputs` returns.
        """
        if batch.step is not None:
            return batch.step.losses(self.weights, self.biases, inputs, forward)
        losses = forward(inputs).loss
        if batch.penalties is not None:
            batch.penalties.of_paths(self, batch, losses)
        return losses

    def tree_heads(self):
        """See `tf_hsm.heads.head.Head`."""
        return [self]

    def variables(self):
        """Returns the weights and, if there are any, the biases."""
        found = [*quantized_rows.variables(self.weights), self.biases]
        return [v for v in found if v is not None]

    def on_one_device(self):
        """Returns this head, whose rows are on one device."""
        return self


# A tuple would do, but Keras would take its variables for a layer's.
@dataclasses.dataclass(frozen=True, eq=False)
class TreeHead(HeadOfTree):
    """A hierarchical softmax in one object, without Keras.

    >>> tree = tf_hsm.Tree.two_level(1_000_000)
    >>> weights = tf.Variable(tf.random.normal([tree.num_rows, 64]))
    >>> head = tf_hsm.TreeHead(weights, None, tree)
    >>> with tf.GradientTape() as tape:
    ...     loss = tf.reduce_mean(head.loss(labels, inputs))
    >>> log_probs, classes = head.top_k(inputs, 10)

    `loss`, `train_step`, `log_probs`, `log_prob`, `top_k` and `sample` take the
    arguments of the functions `tf_hsm.hierarchical_softmax_*`, except for
    `weights`, `biases`, `tree` and `logit_soft_cap`, which the head holds.

    Attributes:
      weights: `[tree.num_weight_rows, width]`, a tensor, a variable or
        `QuantizedRows`.
      biases: `[tree.num_weight_rows]`, or None.
      tree: a `tf_hsm.Tree`, or a `tf_hsm.Forest`.
      logit_soft_cap: see `tf_hsm.hierarchical_softmax_loss`.
    """

    weights: typing.Any
    biases: typing.Any
    tree: Tree | Forest
    _: dataclasses.KW_ONLY
    logit_soft_cap: float | None = None

    def __post_init__(self):
        """Raises an error if `tree` is none, or the soft cap no number."""
        _checks.check_is_tree(self.tree)
        arguments.soft_cap(self.logit_soft_cap)

    def loss(
        self,
        labels,
        inputs,
        *,
        ignore_class=None,
        label_smoothing: float = 0.0,
        nodes: bool = False,
        smoothing_prior=None,
        z_loss: float = 0.0,
    ) -> tf.Tensor:
        """Computes -log p(label | input) in nats, `[...]`.

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
            z_loss=z_loss,
            logit_soft_cap=self.logit_soft_cap,
        )

    def train_step(
        self,
        labels,
        inputs,
        optimizer,
        *,
        loss_weights=None,
        ignore_class=None,
        stochastic_rounding: bool | None = None,
        seed=0,
        label_smoothing: float = 0.0,
        nodes: bool = False,
        smoothing_prior=None,
        z_loss: float = 0.0,
    ) -> tf.Tensor:
        """Computes the losses, and makes a step of an optimizer in place.

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
            z_loss=z_loss,
            logit_soft_cap=self.logit_soft_cap,
        )

    def log_probs(
        self,
        inputs,
        *,
        nodes: bool = False,
        root_log_probs=None,
    ) -> tf.Tensor:
        """Computes log p(class | input) of all classes, in nats.

        See `tf_hsm.hierarchical_softmax_log_probs`.
        """
        return hierarchical_softmax_log_probs(
            self.weights,
            self.biases,
            inputs,
            self.tree,
            nodes=nodes,
            root_log_probs=root_log_probs,
            logit_soft_cap=self.logit_soft_cap,
        )

    def log_prob(
        self,
        classes,
        inputs,
        *,
        nodes: bool = False,
        root_log_probs=None,
        allowed=None,
        renormalize: bool = False,
    ) -> tf.Tensor:
        """Computes log p(class | input) of given classes, in nats.

        See `tf_hsm.hierarchical_softmax_log_prob`.
        """
        return hierarchical_softmax_log_prob(
            self.weights,
            self.biases,
            classes,
            inputs,
            self.tree,
            nodes=nodes,
            root_log_probs=root_log_probs,
            allowed=allowed,
            renormalize=renormalize,
            logit_soft_cap=self.logit_soft_cap,
        )

    def top_k(
        self,
        inputs,
        k: int,
        *,
        beam_width: int | None = None,
        return_pruned: bool = False,
        root_log_probs=None,
        threshold=None,
        bounds=None,
        allowed=None,
        renormalize: bool = False,
        rescore: int | None = None,
    ):
        """Finds the k most probable classes of each input.

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
            rescore=rescore,
            logit_soft_cap=self.logit_soft_cap,
        )

    def sample(
        self,
        inputs,
        num_samples: int,
        *,
        seed=None,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        root_log_probs=None,
        allowed=None,
    ) -> tf.Tensor:
        """Draws classes of each input by their probabilities.

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
            logit_soft_cap=self.logit_soft_cap,
        )

    def losses(self, batch):
        """See `tf_hsm.heads.head.Head`."""
        if isinstance(self.weights, QuantizedRows):
            return quantized_losses.losses(self, batch)
        forward = functools.partial(self._loss_outputs, batch)
        return self._losses_by(forward, batch.inputs, batch)

    def _loss_outputs(self, batch, inputs):
        path, prior = batch.path, batch.path.smoothing_prior
        return loss_outputs(
            self.weights,
            self.biases,
            batch.labels,
            inputs,
            self.tree,
            batch.ignored,
            path.nodes,
            {
                "label_smoothing": path.label_smoothing,
                "smoothing_prior": (
                    [] if prior is None else [prior.tensor(self.weights)]
                ),
                "logit_soft_cap": self.logit_soft_cap or 0.0,
                "z_loss": path.z_loss,
                "pinned": self.tree.pinned,
            },
        )

    def prior(self, counts):
        """See `tf_hsm.heads.head.Head`."""
        return RowShares(self.tree.row_shares(counts))

    def best_class(self, inputs):
        """Returns the most probable class of each input, `[...]` int64."""
        return best_class(
            self.weights, self.biases, inputs, self.tree, self.logit_soft_cap
        )

    def rows_for(self, tree):
        """Returns the row of this tree that each row of another continues.

        Returns:
          `[R]`, or -1: see `Tree.map_rows`.
        """
        return tree.map_rows(self.tree)

    def with_tree(self, tree):
        """Returns a head with the same variables for a tree of this shape."""
        return dataclasses.replace(self, tree=tree)


@dataclasses.dataclass(frozen=True, eq=False)
class TiedHead(TreeHead):
    """A `TreeHead` of one group, whose weights have a dense gradient.

    The embedding's gradient has slices of the rows that it looks up. A tape
    joins slices of two uses without the sum of repeated rows, which Keras'
    optimizers then square one by one. It adds slices to a dense gradient.
    """

    def losses(self, batch):
        """See `tf_hsm.heads.head.Head`."""
        weights = gradients.of_all_rows(self.weights)
        head = TreeHead(
            weights,
            self.biases,
            self.tree,
            logit_soft_cap=self.logit_soft_cap,
        )
        return head.losses(batch)
