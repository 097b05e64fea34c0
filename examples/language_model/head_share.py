"""Measures what the head costs in a training step."""

import statistics
import time

import tensorflow as tf

from examples.language_model import model as model_lib

_REPETITIONS = 7


def head_ms(model, tokens, labels):
    """Milliseconds of the head's loss and gradients on one real batch.

    The body computes the batch's hidden vectors first; then the head alone is
    timed, forward and backward to its inputs, kernel and bias, as the median
    of several runs. The optimizer's update of the head is not in it.

    Args:
        model: the whole model; its recurrent states change.
        tokens: `[B, T]` class ids.
        labels: `[B, T]` class ids.
    """
    head = model.get_layer("head")
    hidden = tf.constant(model_lib.body(model)(tokens))
    labels = tf.constant(labels)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            loss = tf.reduce_mean(head(hidden, labels, training=True))
        variables = [v.value for v in head.trainable_variables]
        return tape.gradient(loss, [hidden, *variables])

    step()
    durations = []
    for _ in range(_REPETITIONS):
        begin = time.perf_counter()
        step()
        durations.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(durations)
