"""Heads: Keras layers, and losses of stock TensorFlow on variables."""

import dataclasses
from collections.abc import Callable

import keras
import tensorflow as tf

import tf_hsm
from tf_hsm import baselines

_SAMPLED = 1_024


@dataclasses.dataclass(frozen=True)
class LayerHead:
    """A head that is a layer of the model, trained by `train_on_batch`.

    Attributes:
      num_classes: N.
      make: makes the layer.
      what: the name of the head for an estimate; None: it has no name, and the
        layer is estimated.
      options: of an estimate of the head.
    """

    num_classes: int
    make: Callable
    what: str | None
    options: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class FunctionHead:
    """A loss on weights and biases, trained by a `tf.function`.

    Attributes:
      num_classes: N.
      what: the name of the head for an estimate.
      loss: a function of weights, biases, labels `[B]` and inputs `[B, D]`.
      num_rows: those of the weights.
      options: of an estimate of the head.
    """

    num_classes: int
    what: str
    loss: Callable
    num_rows: int
    options: dict = dataclasses.field(default_factory=dict)

    def make(self, width):
        """Makes the variables of weights `[rows, width]` and biases."""
        shape = [self.num_rows, width]
        weights = tf.random.uniform(shape, -0.05, 0.05)
        return tf.Variable(weights), tf.Variable(tf.zeros([self.num_rows]))


def full(num_classes):
    """A softmax over all classes: a Dense layer."""
    return LayerHead(
        num_classes, lambda: keras.layers.Dense(num_classes), "full"
    )


def hierarchical(num_classes, optimizer=None):
    """Our layer on a tree of two levels, maybe with an optimizer in place."""

    def make():
        return tf_hsm.layers.HierarchicalSoftmax(
            tf_hsm.Tree.two_level(num_classes), optimizer=optimizer
        )

    return LayerHead(
        num_classes, make, "hierarchical", {"optimizer": optimizer}
    )


def adaptive(num_classes):
    """Our layer with tails."""
    return LayerHead(
        num_classes,
        lambda: tf_hsm.layers.AdaptiveSoftmax(num_classes),
        "adaptive",
    )


def embedding(num_classes, num_embeddings, width, optimizer=None):
    """Our layer with embeddings, maybe with an optimizer in place."""

    def make():
        return tf_hsm.layers.EmbeddingSoftmax(
            tf_hsm.Tree.two_level(num_classes),
            num_embeddings=num_embeddings,
            width=width,
            optimizer=optimizer,
        )

    return LayerHead(num_classes, make, None)


def baseline(what, num_classes):
    """The loss of a name of `tf_hsm.baselines`, or "sampled"."""
    if what == "sampled":
        return FunctionHead(
            num_classes,
            what,
            _sampled(num_classes),
            num_classes,
            {"num_sampled": _SAMPLED},
        )
    tree = tf_hsm.Tree.two_level(num_classes)
    function = getattr(baselines, f"{what}_loss")

    def loss(weights, biases, labels, inputs):
        return function(weights, biases, labels, inputs, tree)

    return FunctionHead(num_classes, what, loss, tree.num_rows)


def _sampled(num_classes):
    def loss(weights, biases, labels, inputs):
        return tf.nn.sampled_softmax_loss(
            weights,
            biases,
            labels[:, tf.newaxis],
            inputs,
            _SAMPLED,
            num_classes,
        )

    return loss
