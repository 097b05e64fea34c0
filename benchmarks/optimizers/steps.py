"""Times steps of our optimizers and of Keras', in turns."""

import time
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from benchmarks.common import limits, machine, update_rules

# The first sparse update of a variable changes how TensorFlow reads it later.
_WARM_UP = 1
# The tables of all rules with their slots, and the tensors of their size that a
# step of Keras' Adam makes.
_TABLES = 33 + 4


class Sizes(NamedTuple):
    """A table `[rows, width]`, and how many of its rows a step changes."""

    rows: int
    width: int
    touched: int


def refusal(sizes):
    """Returns why this is not tried, or None if it can be."""
    table = 4 * sizes.rows * sizes.width
    room = limits.Limits(machine.available_bytes(), seconds=0)
    return room.refusal(0, _TABLES * table, seconds=0)


def measure(sizes, repetitions, threads):
    """Times all rules, after some steps of each to warm up.

    To be called in a process of its own. Every turn draws rows for two steps,
    the same for all, and sorted, as the gradient of the loss gives them; the
    second step is timed, so that it does not matter who came before. Each
    optimizer has a table of its own.

    Returns:
      Rule -> {"ours", "keras"}: dicts of "ms", a median, and "samples_ms".
    """
    machine.use_threads(threads)
    steps = {
        (rule, whose): make_step(make(), sizes)
        for rule, makers in update_rules.RULES.items()
        for whose, make in zip(("ours", "keras"), makers, strict=True)
    }
    samples = {key: [] for key in steps}
    rng = np.random.default_rng(0)
    for _ in range(_WARM_UP + repetitions):
        first, second = (draw_gradient(sizes, rng) for _ in range(2))
        for key, step in steps.items():
            step(*first)
            start = time.perf_counter()
            step(*second)
            samples[key].append(1000 * (time.perf_counter() - start))
    results = {rule: {} for rule in update_rules.RULES}
    for (rule, whose), times in samples.items():
        times = times[_WARM_UP:]
        results[rule][whose] = {
            "ms": float(np.median(times)),
            "samples_ms": times,
        }
    return results


def draw_gradient(sizes, rng):
    """Returns rows `[U]`, sorted, and their gradients `[U, width]`."""
    rows = rng.choice(sizes.rows, sizes.touched, replace=False)
    values = rng.normal(size=(sizes.touched, sizes.width))
    return (
        tf.constant(np.sort(rows), tf.int64),
        tf.constant(values, tf.float32),
    )


def make_step(optimizer, sizes):
    """Returns a function of rows `[U]` and values `[U, width]`, traced."""
    table = keras.Variable(tf.zeros([sizes.rows, sizes.width]))
    optimizer.build([table])

    @tf.function
    def step(rows, values):
        shape = tf.constant([sizes.rows, sizes.width], tf.int64)
        optimizer.apply([tf.IndexedSlices(values, rows, shape)], [table])

    return step.get_concrete_function(
        tf.TensorSpec([sizes.touched], tf.int64),
        tf.TensorSpec([sizes.touched, sizes.width], tf.float32),
    )
