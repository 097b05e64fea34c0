"""The whole training steps that are compared, and one step of each.

A step takes labels `[B]` and inputs `[B, D]`, makes the losses and the gradient
of the inputs, and changes the weights, biases and slots.
"""

import functools
import math
from typing import NamedTuple

import tensorflow as tf

import tf_hsm
from benchmarks import _implementations, _optimizer_steps
from tf_hsm import baselines


class Rule(NamedTuple):
    """An update rule, by what it keeps beside the weights."""

    # Of `_optimizer_steps.RULES`.
    name: str
    # Slots of the weights' shape, ours and stock, and ours of one number a row.
    tables: int = 0
    stock_tables: int = 0
    columns: int = 0

    def make_optimizer(self, stock):
        """Makes Keras' nearest optimizer if `stock`, else that of tf_hsm."""
        return _optimizer_steps.RULES[self.name][stock]()

    def slots_per_row(self, width):
        """The numbers that our slots hold for a row of `width` weights."""
        return self.tables * width + self.columns


RULES = {
    "sgd": Rule(_optimizer_steps.PLAIN_SGD),
    "adagrad": Rule("Adagrad", tables=1, stock_tables=1),
    "rowwise_adagrad": Rule("RowwiseAdagrad", stock_tables=1, columns=1),
    "lazy_adam": Rule("LazyAdam", tables=2, stock_tables=2),
}

IN_PLACE = "in_place"
THEN_OPTIMIZER = "then_optimizer"
GATHER_STOCK = "gather_stock"
IMPLEMENTATIONS = (IN_PLACE, THEN_OPTIMIZER, GATHER_STOCK)


def is_stock(name):
    """Whether an implementation is stock TensorFlow and Keras alone."""
    return name == GATHER_STOCK


def make_optimizer(name, rule, parameters):
    """Makes the optimizer of an implementation, and its slots.

    Args:
      name: one of `IMPLEMENTATIONS`; the first two can share an optimizer.
      rule: one of `RULES`.
      parameters: `_implementations.Parameters`.
    """
    optimizer = RULES[rule].make_optimizer(is_stock(name))
    optimizer.build(list(parameters))
    return optimizer


def slot_bytes(name, rule, num_rows, case):
    """The bytes of the slots that `make_optimizer` makes.

    Ours are float32 for 16-bit weights, Keras' of the weights' type. A bias has
    as many as a weight, and one where there is one for a row.
    """
    width = case.sizes.width
    itemsize = _implementations.itemsize(case)
    rule = RULES[rule]
    if is_stock(name):
        return rule.stock_tables * num_rows * (width + 1) * itemsize
    of_biases = rule.tables + rule.columns
    return (
        num_rows
        * (rule.slots_per_row(width) + of_biases)
        * slot_itemsize(case)
    )


def slot_itemsize(case):
    """The bytes of one number of our slots."""
    return max(_implementations.itemsize(case), tf.float32.size)


def held_slot_bytes(optimizer, parameters):
    """The bytes of the slots that an optimizer has, counted one by one."""
    shapes = {tuple(p.shape) for p in parameters}
    shapes |= {shape[:1] for shape in shapes}
    return sum(
        math.prod(v.shape) * tf.as_dtype(v.dtype).size
        for v in optimizer.variables
        if tuple(v.shape) in shapes
    )


def make_step(name, optimizer, parameters, tree, case):
    """Traces the step of one implementation.

    Args:
      name: one of `IMPLEMENTATIONS`.
      optimizer: what `make_optimizer` made.
      parameters: `_implementations.Parameters`.
      tree: the tree of the case.
      case: a `Case`.

    Returns:
      A function of labels and inputs, which runs the step to its end and
      returns the losses.
    """
    loss = {
        IN_PLACE: functools.partial(
            tf_hsm.hierarchical_softmax_train_step, optimizer=optimizer
        ),
        THEN_OPTIMIZER: tf_hsm.hierarchical_softmax_loss,
        GATHER_STOCK: baselines.gather_loss,
    }[name]

    def train(labels, inputs):
        losses, gradients = _implementations.losses_and_gradients(
            loss, parameters, labels, inputs, tree
        )
        if name != IN_PLACE:
            optimizer.apply(gradients[1:], list(parameters))
        return losses, gradients[0]

    batch, width = case.sizes.batch, case.sizes.width
    step = tf.function(train).get_concrete_function(
        tf.TensorSpec([batch], tf.int64),
        tf.TensorSpec([batch, width], case.dtype),
    )

    def run(labels, inputs):
        # All results are there once the losses are, and are freed on return.
        return step(labels, inputs)[0].numpy()

    return run
