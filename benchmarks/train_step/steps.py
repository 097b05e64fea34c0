"""The whole training steps that are compared, and one step of each.

A step takes labels `[B]` and inputs `[B, D]`, makes the losses and the gradient
of the inputs, and changes the weights, biases and slots.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

import tf_hsm
from benchmarks.common import implementations, limits
from tf_hsm import baselines, optimizers


class Rule(NamedTuple):
    """An update rule, by the slots that it has beside the weights."""

    ours: Callable  # makes the optimizer of tf_hsm
    stock: Callable  # makes Keras' nearest optimizer
    tables: int = 0  # slots of the weights' shape
    columns: int = 0  # slots of one number per row

    def make_optimizer(self, stock):
        """Makes Keras' nearest optimizer if `stock`, else that of tf_hsm."""
        return (self.stock if stock else self.ours)(_RATE)

    def slots_per_row(self, width):
        """The numbers in our slots for a row of `width` weights."""
        return self.tables * width + self.columns


_RATE = 0.01
RULES = {
    "sgd": Rule(optimizers.SGD, keras.optimizers.SGD),
    "adagrad": Rule(optimizers.Adagrad, keras.optimizers.Adagrad, tables=1),
    "rowwise_adagrad": Rule(
        optimizers.RowwiseAdagrad, keras.optimizers.Adagrad, columns=1
    ),
    "rmsprop": Rule(optimizers.RMSprop, keras.optimizers.RMSprop, tables=1),
    "lazy_adam": Rule(optimizers.LazyAdam, keras.optimizers.Adam, tables=2),
    "lion": Rule(optimizers.Lion, keras.optimizers.Lion, tables=1),
}

IN_PLACE = "in_place"
IN_FIT = "fit"
THEN_OPTIMIZER = "then_optimizer"
GATHER_STOCK = "gather_stock"
IMPLEMENTATIONS = (IN_PLACE, IN_FIT, THEN_OPTIMIZER, GATHER_STOCK)


def is_stock(name):
    """Whether an implementation is stock TensorFlow and Keras alone."""
    return name == GATHER_STOCK


def make_optimizer(name, rule, parameters):
    """Makes the optimizer of an implementation with its slots.

    Args:
      name: one of `IMPLEMENTATIONS`; those that are not stock may share it.
      rule: one of `RULES`.
      parameters: `implementations.Parameters`.
    """
    optimizer = RULES[rule].make_optimizer(is_stock(name))
    optimizer.build(list(parameters))
    return optimizer


def make_step(name, optimizer, parameters, tree, case):
    """Traces the step of an implementation.

    Args:
      name: one of `IMPLEMENTATIONS` but `IN_FIT`.
      optimizer: what `make_optimizer` made.
      parameters: `implementations.Parameters`.
      tree: the tree of the case.
      case: a `Case`.

    Returns:
      A function of labels and inputs, as `implementations.traced` returns it,
      to the losses and the gradient of the inputs.
    """
    loss = {
        IN_PLACE: functools.partial(
            tf_hsm.hierarchical_softmax_train_step, optimizer=optimizer
        ),
        THEN_OPTIMIZER: tf_hsm.hierarchical_softmax_loss,
        GATHER_STOCK: baselines.gather_loss,
    }[name]

    def train(labels, inputs):
        losses, gradients = implementations.losses_and_gradients(
            loss, parameters, labels, inputs, tree
        )
        if name != IN_PLACE:
            optimizer.apply(gradients[1:], list(parameters))
        return losses, gradients[0]

    return implementations.traced(train, case)


def make_model(rule, tree, case):
    """Makes a compiled model of a head that trains in place.

    Its body is one number, which asks for the gradient of the head's inputs; no
    other body costs less.
    """
    head = tf_hsm.layers.HierarchicalSoftmax(
        tree, optimizer=RULES[rule].make_optimizer(False), dtype=case.dtype
    )
    inputs = keras.Input([case.sizes.width], dtype=case.dtype)
    outputs = head(_Shift(dtype=case.dtype)(inputs))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", head.loss)
    return model


class _Shift(keras.layers.Layer):
    def build(self, inputs_shape):
        self.number = self.add_weight(shape=(), initializer="zeros")

    def call(self, inputs):
        return inputs + self.number


def estimated(name, rule, tree, case):
    """Estimates a step: a `tf_hsm.estimation.part.Part`."""
    optimizer = RULES[rule].make_optimizer(is_stock(name))
    if name in (IN_PLACE, IN_FIT):
        return limits.estimated("hierarchical", tree, case, None, optimizer)
    what = "gather" if is_stock(name) else "hierarchical"
    return limits.estimated(what, tree, case, optimizer)


def slot_itemsize(case):
    """The bytes of one number of our slots: float32 at least."""
    return max(implementations.itemsize(case), tf.float32.size)
