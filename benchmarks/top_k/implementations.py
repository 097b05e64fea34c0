"""The ways to the k best classes that are compared in one process.

Each is a function of inputs `[B, D]` that gives log-probabilities and classes,
`[B, k]`, best first:

    exact                 best-first search
    beam W                at most W groups of a level
    log_probs + top_k     all log-probabilities of the tree, then tf.math.top_k
    full softmax + top_k  tf.matmul with a row for each class, tf.nn.log_softmax
                          and tf.math.top_k: another model of the same size
"""

import tensorflow as tf

import tf_hsm
from benchmarks.common import implementations
from tf_hsm.runtime import library

EXACT = "exact"
LOG_PROBS = "log_probs + top_k"
FULL = "full softmax + top_k"
_BEAM = "beam "

# A node that a search has not opened yet, in its heap and as it is found.
_NODE_BYTES = 2 * 16


def names(beam_widths):
    """Lists the implementations in the order of the tables."""
    return [EXACT, *map(beam, beam_widths), LOG_PROBS, FULL]


def beam(width):
    """The name of the beam of a width."""
    return f"{_BEAM}{width}"


def is_beam(name):
    """Whether a name is that of a beam."""
    return name.startswith(_BEAM)


def step_bytes(name, head, batch):
    """Estimates what a call needs beside the parameters."""
    if name in (LOG_PROBS, FULL):
        # A number for each class; the full softmax also has its logits.
        itemsize = max(4, implementations.itemsize(head))
        numbers = batch * head.sizes.num_classes
        return (1 + (name == FULL)) * numbers * itemsize
    # All searches together hold at most so many nodes at once.
    limit = library.constants().max_open
    return _NODE_BYTES * min(batch * head.tree.num_groups, limit)


def step_seconds(name, head, batch, rates):
    """Estimates how long those take at least that score everything."""
    if name not in (LOG_PROBS, FULL):
        return 0.0
    rows = (head.tree.num_rows, head.sizes.num_classes)[name == FULL]
    return 2 * batch * rows * head.sizes.width / rates.flops


def make(name, head, k, batch, full_parameters=None):
    """Traces an implementation.

    Args:
      name: as `names` lists them.
      head: a `heads.Head`.
      k: how many classes.
      batch: how many inputs.
      full_parameters: `implementations.Parameters` of a row for each class,
        for FULL.

    Returns:
      A function of inputs `[batch, D]`, as above; a beam's function returns a
      third one, `[B]`: how many nodes were left out that could have mattered.
    """
    if name == FULL:

        def function(inputs):
            weights, biases = full_parameters
            logits = tf.matmul(inputs, weights, transpose_b=True) + biases
            return _best(tf.nn.log_softmax(logits), k)
    elif name == LOG_PROBS:

        def function(inputs):
            return _best(
                tf_hsm.hierarchical_softmax_log_probs(
                    *head.parameters, inputs, head.tree
                ),
                k,
            )
    else:
        width = int(name.removeprefix(_BEAM)) if is_beam(name) else None

        def function(inputs):
            return tf_hsm.hierarchical_softmax_top_k(
                *head.parameters,
                inputs,
                head.tree,
                k,
                beam_width=width,
                return_pruned=width is not None,
            )

    return tf.function(function).get_concrete_function(
        tf.TensorSpec([batch, head.sizes.width], head.dtype)
    )


def _best(log_probs, k):
    values, classes = tf.math.top_k(log_probs, k)
    return values, tf.cast(classes, tf.int64)
