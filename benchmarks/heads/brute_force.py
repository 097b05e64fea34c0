"""All log-probabilities of some inputs, to check searches and draws against."""

import numpy as np
import tensorflow as tf

import tf_hsm

_CHUNK_BYTES = 128 << 20  # made at once
_SECONDS = 5.0  # for all chunks, by their arithmetic


def num_inputs(head, most, rates):
    """How many inputs there is time for, `most` at most."""
    rows, width = head.tree.num_rows, head.sizes.width
    most = min(most, head.inputs.shape[0])
    return int(np.clip(_SECONDS * rates.flops / (2 * rows * width), 1, most))


def chunks(head, count):
    """Yields log-probabilities of nodes, `[c, rows]`, of c inputs at a time."""
    tree = head.tree
    size = max(1, _CHUNK_BYTES // (4 * tree.num_rows))

    @tf.function(reduce_retracing=True)
    def of_nodes(inputs):
        return tf_hsm.hierarchical_softmax_log_probs(
            *head.parameters, inputs, tree, nodes=True
        )

    for begin in range(0, count, size):
        yield of_nodes(head.inputs[begin : min(begin + size, count)])


def clarity(log_probs):
    """How sure the model is of each input.

    Args:
      log_probs: `[c, N]`, of the classes.

    Returns:
      Two `[c]`: the probability of the best class, and the entropy in nats.
    """
    probs = tf.exp(log_probs)
    terms = tf.math.multiply_no_nan(log_probs, probs)
    return tf.reduce_max(probs, 1).numpy(), -tf.reduce_sum(terms, 1).numpy()
