"""The implementations that are compared, and one step of each.

A step is a tf.function of labels `[B]` and inputs `[B, D]`, in three phases:

    forward           the losses
    forward_backward  also the gradients of inputs, weights and biases, each in
                      the form that the implementation gives them
    sgd               also plain SGD on weights and biases, keras.optimizers.SGD
"""

from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

import tf_hsm
from tf_hsm import baselines

PHASES = ("forward", "forward_backward", "sgd")
_LEARNING_RATE = 1e-3
_CHUNK = 256  # examples of `chunked`


class Implementation(NamedTuple):
    """How an implementation is called, and what it does to its weights."""

    loss: Callable
    # Whether the gradient of the weights is tf.IndexedSlices.
    sparse: bool = True
    # Whether there is a row for each class, and none for inner nodes.
    flat: bool = False

    def num_rows(self, tree):
        """The rows of the weights."""
        return tree.num_classes if self.flat else tree.num_rows


def _chunked_loss(weights, biases, labels, inputs, tree):
    """The full softmax in chunks of the batch, whose logits are made again."""
    loss = tf.recompute_grad(baselines.full_softmax_loss)
    begins = range(0, labels.shape[0], _CHUNK)
    return tf.concat(
        [
            loss(
                weights, biases, labels[i : i + _CHUNK], inputs[i : i + _CHUNK]
            )
            for i in begins
        ],
        0,
    )


IMPLEMENTATIONS = {
    "ours": Implementation(tf_hsm.hierarchical_softmax_loss),
    "gather": Implementation(baselines.gather_loss),
    "embedding_lookup": Implementation(baselines.embedding_lookup_loss),
    "map_fn": Implementation(baselines.map_fn_loss, sparse=False),
    "full": Implementation(
        baselines.full_softmax_loss, sparse=False, flat=True
    ),
    "chunked": Implementation(_chunked_loss, sparse=False, flat=True),
}


class Parameters(NamedTuple):
    """Weights `[rows, D]` and biases `[rows]`."""

    weights: tf.Variable
    biases: tf.Variable


def make_parameters(num_rows, case):
    """Makes random weights without a second copy of them.

    A variable takes over the memory of its initial value if that is the output
    of one op; filling it in parts would set its copy-on-read mode.
    """
    return Parameters(
        tf.Variable(
            tf.raw_ops.RandomUniform(
                shape=[num_rows, case.sizes.width], dtype=case.dtype, seed=1
            )
        ),
        tf.Variable(tf.zeros([num_rows], case.dtype)),
    )


def parameter_bytes(num_rows, case):
    """The bytes of `make_parameters`."""
    return num_rows * (case.sizes.width + 1) * itemsize(case)


def make_inputs(case):
    """Makes random inputs `[B, D]` that give logits of about 1."""
    shape = [case.sizes.batch, case.sizes.width]
    inputs = tf.random.stateless_normal(shape, seed=[0, 1])
    return tf.cast(inputs / case.sizes.width**0.5, case.dtype)


def make_step(loss_function, phase, parameters, tree, case):
    """Traces the step of one phase.

    Args:
      loss_function: called like `tf_hsm.hierarchical_softmax_loss`.
      phase: one of `PHASES`.
      parameters: `Parameters`.
      tree: the tree of the case.
      case: a `Case`.

    Returns:
      A function of labels and inputs, as `traced` returns it.
    """
    weights, biases = parameters
    optimizer = keras.optimizers.SGD(_LEARNING_RATE)
    optimizer.build([weights, biases])

    def forward(labels, inputs):
        return (loss_function(weights, biases, labels, inputs, tree),)

    def forward_backward(labels, inputs):
        return losses_and_gradients(
            loss_function, parameters, labels, inputs, tree
        )

    def sgd(labels, inputs):
        losses, gradients = forward_backward(labels, inputs)
        optimizer.apply(gradients[1:], [weights, biases])
        return losses, gradients[0]

    function = {
        "forward": forward,
        "forward_backward": forward_backward,
        "sgd": sgd,
    }[phase]
    return traced(function, case)


def traced(function, case):
    """Traces a function of labels and inputs, which returns the losses first.

    Returns:
      A function that runs it to its end, and returns the same.
    """
    batch, width = case.sizes.batch, case.sizes.width
    step = tf.function(function).get_concrete_function(
        tf.TensorSpec([batch], tf.int64),
        tf.TensorSpec([batch, width], case.dtype),
    )

    def run(labels, inputs):
        results = step(labels, inputs)
        results[0].numpy()  # All results are there once the losses are.
        return results

    return run


def losses_and_gradients(loss_function, parameters, labels, inputs, tree):
    """Returns losses `[B]`, and the gradients of their mean.

    These are a list: of inputs, weights and biases, as `loss_function` gives
    them.
    """
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        losses = loss_function(*parameters, labels, inputs, tree)
        mean = tf.reduce_mean(losses)
    return losses, tape.gradient(mean, [inputs, *parameters])


def itemsize(case):
    """The bytes of one number."""
    return tf.as_dtype(case.dtype).size
