"""The ways to draw classes that are compared in one process.

Each is a function of inputs `[B, D]` that gives classes `[B, S]`:

    ancestral                   from the root down
    top_k=K, top_p=P            the best classes first, then draws among them
    full softmax + categorical  tf.matmul with a row for each class, then
                                tf.random.categorical: another model of the
                                same size
"""

import functools

import tensorflow as tf

import tf_hsm
from benchmarks.common import implementations

ANCESTRAL = "ancestral"
FULL = "full softmax + categorical"

# Draws that go down the tree together, and the bytes of each.
_DRAWS = 1 << 20
_DRAW_BYTES = 64
# A search for many classes: the bytes that it takes for each of them, and the
# seconds at least, both measured.
_FOUND_BYTES = 30
_FOUND_SECONDS = 3e-7


def restrictions(top_k, top_p):
    """Name -> arguments of `tf_hsm.hierarchical_softmax_sample`."""
    return {
        ANCESTRAL: {},
        f"top_k={top_k}": {"top_k": top_k},
        f"top_p={top_p:g}": {"top_p": top_p},
    }


def step_bytes(name, head, batch, num_samples, found):
    """Estimates what a call needs beside the parameters.

    Args:
      name: FULL, or one of `restrictions`.
      head: a `heads.Head`.
      batch: how many inputs.
      num_samples: how many draws of each.
      found: how many classes are found first for an input, on average.
    """
    if name == FULL:
        # Logits, and running sums in float64 for an input of each thread.
        itemsize = implementations.itemsize(head)
        return (batch * itemsize + 64) * head.sizes.num_classes
    if name == ANCESTRAL:
        return _DRAW_BYTES * min(batch * num_samples, _DRAWS)
    return int(_FOUND_BYTES * batch * found)


def step_seconds(name, head, batch, found, rates, threads):
    """Estimates how long a slow call takes at least; 0 for others."""
    if name == FULL:
        classes, width = head.sizes.num_classes, head.sizes.width
        return 2 * batch * classes * width / rates.flops
    if name == ANCESTRAL:
        return 0.0
    return _FOUND_SECONDS * batch * found / min(threads, batch)


def make(arguments, head, batch, num_samples, full_parameters=None):
    """Traces an implementation.

    Args:
      arguments: one of `restrictions`; None: the full softmax.
      head: a `heads.Head`.
      batch: how many inputs.
      num_samples: how many draws of each.
      full_parameters: `implementations.Parameters` of a row for each class,
        for the full softmax.

    Returns:
      A function of inputs `[batch, D]`, which draws others in each call.
    """
    if arguments is None:
        function = functools.partial(_full, full_parameters, num_samples)
    else:
        function = functools.partial(
            tf_hsm.hierarchical_softmax_sample,
            *head.parameters,
            tree=head.tree,
            num_samples=num_samples,
            **arguments,
        )
    return tf.function(function).get_concrete_function(
        tf.TensorSpec([batch, head.sizes.width], head.dtype)
    )


def _full(parameters, num_samples, inputs):
    weights, biases = parameters
    logits = tf.matmul(inputs, weights, transpose_b=True) + biases
    return tf.random.categorical(logits, num_samples)
