"""The beam searches that are compared in one process.

    beam_search            tf_hsm.decoding.beam_search: searches with bounds
    top_k                  hierarchical_softmax_top_k for every hypothesis alike
    log_probs + top_k      all log-probabilities of the tree, then tf.math.top_k
    full softmax + top_k   tf.matmul with a row for each class,
                           tf.nn.log_softmax and tf.math.top_k: another model of
                           the same size

All but the first make their candidates in a few lines of TensorFlow. There is
no model below the head: the next hidden vector is looked up, by the last class
and the position.
"""

import functools

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import implementations
from benchmarks.heads import best_classes

OURS = "beam_search"
TOP_K = "top_k"
LOG_PROBS = "log_probs + top_k"
FULL = "full softmax + top_k"
NAMES = (OURS, TOP_K, LOG_PROBS, FULL)
# Between the inputs of one position and the next.
_STRIDE = 7_919


def step_bytes(name, head, hypotheses):
    """Estimates what a step needs beside the parameters."""
    if name not in (LOG_PROBS, FULL):
        return 0
    # A number for each class; the full softmax also has its logits.
    itemsize = max(4, implementations.itemsize(head))
    return (1 + (name == FULL)) * hypotheses * head.sizes.num_classes * itemsize


def step_seconds(name, head, hypotheses, rates):
    """Estimates how long those take at least that score everything."""
    if name not in (LOG_PROBS, FULL):
        return 0.0
    rows = (head.tree.num_rows, head.sizes.num_classes)[name == FULL]
    return 2 * hypotheses * rows * head.sizes.width / rates.flops


def make(name, head, batch, width, length, full_parameters=None):
    """Traces an implementation.

    Args:
      name: one of `NAMES`.
      head: a `heads.Head`.
      batch: how many searches a call makes.
      width: of the beam.
      length: of the sequences.
      full_parameters: `implementations.Parameters` of a row for each class,
        for FULL.

    Returns:
      A function of starts `[batch]` int64 that gives log-probabilities
      `[batch, width]` and classes `[batch, width, length]`.
    """
    count = head.inputs.shape[0]

    def step(classes, places):
        hidden = tf.gather(head.inputs, (classes + places) % count)
        return hidden, places + _STRIDE

    def search(starts):
        places = tf.zeros_like(starts)
        if name != OURS:
            source = head if full_parameters is None else full_parameters
            best = functools.partial(_BEST[name], source)
            return _plain(best, step, starts, places, width, length)
        found = tf_hsm.decoding.beam_search(
            step,
            places,
            _Head(head),
            beam_width=width,
            length=length,
            start=starts,
        )
        return found.log_probs, found.classes

    return tf.function(search).get_concrete_function(
        tf.TensorSpec([batch], tf.int64)
    )


class _Head:
    """A `heads.Head` as a decoder takes it."""

    def __init__(self, head):
        self.num_classes = head.sizes.num_classes
        self._top_k = functools.partial(_search, head)

    def top_k(self, inputs, k, bounds):
        return self._top_k(inputs, k, bounds=bounds)


def _plain(best, step, starts, places, width, length):
    """A beam search without ends, in the fewest lines of TensorFlow."""
    last = tf.repeat(starts, width)
    places = tf.repeat(places, width)
    totals = tf.where(tf.range(width) == 0, np.float64(0), -np.inf)
    totals = tf.repeat(totals[tf.newaxis], tf.size(starts), 0)
    found = tf.zeros([tf.size(starts), width, 0], tf.int64)
    for _ in range(length):
        hidden, places = step(last, places)
        log_probs, classes = best(hidden, width)
        log_probs = tf.reshape(log_probs, [-1, width, width])
        log_probs = totals[..., tf.newaxis] + tf.cast(log_probs, tf.float64)
        totals, chosen = tf.math.top_k(
            tf.reshape(log_probs, [-1, width * width]), width
        )
        classes = tf.reshape(classes, [-1, width * width])
        classes = tf.gather(classes, chosen, batch_dims=1)
        # Places are the same for all hypotheses.
        found = tf.gather(found, chosen // width, batch_dims=1)
        found = tf.concat([found, classes[..., tf.newaxis]], 2)
        last = tf.reshape(classes, [-1])
    return tf.cast(totals, tf.float32), found


def _search(head, inputs, k, **options):
    return tf_hsm.hierarchical_softmax_top_k(
        *head.parameters, inputs, head.tree, k, **options
    )


# Functions of a `heads.Head`, or parameters; inputs `[B, D]`; and k.
_BEST = {
    TOP_K: _search,
    LOG_PROBS: best_classes.of_tree,
    FULL: best_classes.of_full,
}
