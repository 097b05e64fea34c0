"""Measures what the head costs in a training step."""

import statistics
import time

import tensorflow as tf

from examples.language_model import model as model_lib

_REPETITIONS = 7


def head_share(model, tokens, labels, step_ms):
    """The share of the head's loss and gradients in a training step.

    The body computes the hidden vectors of a real batch first; then the head
    alone is timed, forward and backward to its inputs, kernel and bias. The
    optimizer's update of the head is not in it.

    Both times are processor times: the head is not timed at the same
    moment as the steps, and durations depend on what else the machine does.

    Args:
        model: the whole model; its recurrent states change, its head does not.
        tokens: `[B, T]` class ids.
        labels: `[B, T]` class ids.
        step_ms: mean time of a training step on all processors together.

    Returns:
        At most 1; None where the two times contradict each other, or where the
        head would update itself.
    """
    if getattr(model.get_layer("head"), "optimizer", None) is not None:
        return None
    share = _processor_ms(model, tokens, labels) / step_ms
    return share if share <= 1 else None


def _processor_ms(model, tokens, labels):
    """Median time of several runs of the head, on all processors together."""
    head = model.get_layer("head")
    hidden = tf.constant(model_lib.body(model)(tokens))
    labels = tf.constant(labels)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            loss = tf.reduce_mean(head(hidden, labels))
        variables = [v.value for v in head.trainable_variables]
        return tape.gradient(loss, [hidden, *variables])

    # A head may count its draws, and a run is not to depend on being timed.
    counts = [(v, v.numpy()) for v in head.non_trainable_variables]
    step()
    durations = []
    for _ in range(_REPETITIONS):
        begin = time.process_time()
        step()
        durations.append(time.process_time() - begin)
    for variable, value in counts:
        variable.assign(value)
    return 1e3 * statistics.median(durations)
