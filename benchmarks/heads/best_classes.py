"""The k best classes without a search: by all log-probabilities.

Each function takes inputs `[B, D]` and returns log-probabilities and classes,
`[B, k]`, best first.
"""

import tensorflow as tf

import tf_hsm


def of_tree(head, inputs, k):
    """The best classes of a `heads.Head`."""
    return _best(
        tf_hsm.hierarchical_softmax_log_probs(
            *head.parameters, inputs, head.tree
        ),
        k,
    )


def of_full(parameters, inputs, k):
    """The best classes of a full softmax with weights and biases."""
    weights, biases = parameters
    logits = tf.matmul(inputs, weights, transpose_b=True) + biases
    return _best(tf.nn.log_softmax(logits), k)


def _best(log_probs, k):
    values, classes = tf.math.top_k(log_probs, k)
    return values, tf.cast(classes, tf.int64)
