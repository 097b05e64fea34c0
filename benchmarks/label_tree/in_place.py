"""Trains a label tree in place, and times its steps."""

import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import label_examples, limits, machine

# Adagrad that begins with nothing does not ask for the scale of gradients.
_RATE, _ACCUMULATOR = 0.5, 1e-6
_WARM_UP = 3


class Sizes(NamedTuple):
    """What is trained."""

    labels: int
    width: int
    batch: int
    most: int  # labels of an example
    steps: int


def refusal(sizes, memory):
    """Why this is not tried with so many bytes of memory, or None."""
    # Weights, the vectors of the examples, and what made each of the two.
    table = 4 * sizes.labels * sizes.width
    return limits.Limits(memory, seconds=0).refusal(0, 4 * table, seconds=0)


def measure(sizes, threads):
    """Trains by row-wise Adagrad, and then asks for labels of new examples.

    To be called in a process of its own. Every step has new examples, which
    are drawn before it is timed.

    Returns:
      A dict: "ms" of a step, a median, and "samples_ms"; "visited_rows", the
      mean of a step, and "rows"; "extra_bytes", the most that the process had
      beside parameters, slots and examples; "top_5_ms", for a batch; and
      "precisions": P@1, P@3 and P@5 in percent.
    """
    machine.use_threads(threads)
    tree = tf_hsm.Tree.balanced(sizes.labels, 100)
    source = label_examples.Source(tree, sizes.width, sizes.most)
    weights = tf.Variable(tf.zeros([tree.num_rows, sizes.width]))
    biases = tf.Variable(tf.zeros([tree.num_rows]))
    optimizer = tf_hsm.optimizers.RowwiseAdagrad(
        _RATE, initial_accumulator_value=_ACCUMULATOR
    )
    optimizer.build([weights, biases])

    @tf.function
    def step(labels, inputs):
        return tf_hsm.label_tree_train_step(
            weights, biases, labels, inputs, tree, optimizer
        )

    @tf.function
    def top_5(inputs):
        return tf_hsm.label_tree_top_k(weights, biases, inputs, tree, 5).classes

    # Seeds that no step has.
    tests = [source.draw(sizes.batch, sizes.steps + i) for i in range(4)]

    samples, rows, peak = [], [], 0
    for number in range(sizes.steps):
        batch = source.draw(sizes.batch, number)
        inputs, labels = map(tf.constant, (batch.inputs, batch.labels))
        machine.restart_peak()
        drawn = machine.resident_bytes()
        start = time.perf_counter()
        step(labels, inputs)
        samples.append(1000 * (time.perf_counter() - start))
        peak = max(peak, machine.peak_bytes() - drawn)
        rows.append(visited_rows(tree, batch.labels))
    found, searches = [], []
    for test in tests:
        start = time.perf_counter()
        found.append(top_5(test.inputs).numpy())
        searches.append(1000 * (time.perf_counter() - start))
    timed = samples[_WARM_UP:] or samples
    return {
        "ms": float(np.median(timed)),
        "samples_ms": timed,
        "visited_rows": float(np.mean(rows)),
        "rows": tree.num_rows,
        "extra_bytes": peak,
        "top_5_ms": float(np.median(searches)),
        "precisions": label_examples.precisions(
            np.concatenate([test.labels for test in tests]),
            np.concatenate(found),
        ),
    }


def visited_rows(tree, labels):
    """How many rows are in the groups that a batch visits."""
    groups = tree.row_groups[tree.class_rows[labels[labels >= 0]]]
    seen = [0]
    while groups.size:
        groups = np.unique(groups)
        seen.extend(groups)
        above = tree.group_parents[groups]
        groups = tree.row_groups[above[above >= 0]]
    return int(np.diff(tree.group_offsets)[np.unique(seen)].sum())
