"""Times and weighs training steps of an adaptive softmax: in place, and not."""

import functools
import gc
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks.common import machine, memory, timing, update_rules, workloads
from tf_hsm.layers import AdaptiveSoftmax

IN_PLACE, THEN_OPTIMIZER = "in place", "gradient, then optimizer"
RULES = [name for name in update_rules.RULES if "momentum" not in name]


class Sizes(NamedTuple):
    """N classes, D inputs of the head, B examples in a step."""

    classes: int
    width: int
    batch: int


def measure(sizes, rule, repetitions, threads):
    """Times both steps in turns.

    To be called in a process of its own.

    Returns:
      A dict: "cutoffs", "parameters", and for each step "ms" and "samples_ms".
    """
    machine.use_threads(threads)
    labels, inputs = _make_data(sizes, 1 + repetitions)
    turns = {}
    for name in (IN_PLACE, THEN_OPTIMIZER):
        layer = _make_layer(sizes, rule, name)
        step = _make_step(layer, rule, sizes)
        turns[name] = functools.partial(_turn, step, labels, inputs)
    samples = timing.interleave(turns, repetitions, lambda: None)
    return {
        "cutoffs": list(layer.cutoffs),
        "parameters": layer.count_params(),
        **{name: timing.milliseconds(s) for name, s in samples.items()},
    }


def extra_bytes(sizes, rule, threads, name):
    """The peak of two steps beyond the weights and the slots.

    To be called in a process of its own.
    """
    machine.use_threads(threads)
    labels, inputs = _make_data(sizes, 2)
    layer = _make_layer(sizes, rule, name)
    step = _make_step(layer, rule, sizes)
    gc.collect()
    resident = machine.resident_bytes()
    return memory.peak_of(step, labels, inputs) - resident


def _make_data(sizes, number):
    """Labels `[number, B]` by Zipf's law, and inputs `[B, D]`."""
    rng = np.random.default_rng(0)
    cumulative = np.cumsum(workloads.zipf_counts(sizes.classes))
    drawn = rng.random([number, sizes.batch]) * cumulative[-1]
    shape = [sizes.batch, sizes.width]
    inputs = tf.random.normal(shape, stddev=sizes.width**-0.5)
    return np.searchsorted(cumulative, drawn), inputs


def _make_layer(sizes, rule, name):
    """A built layer whose rows are trained by the step of this name."""
    layer = AdaptiveSoftmax(
        sizes.classes,
        batch=sizes.batch,
        optimizer=update_rules.RULES[rule][0]() if name == IN_PLACE else None,
    )
    layer.build((None, sizes.width))
    return layer


def _make_step(layer, rule, sizes):
    """Returns a function of labels and inputs, traced."""
    optimizer = update_rules.RULES[rule][0]()
    variables = layer.trainable_variables
    optimizer.build(variables)

    @tf.function
    def step(labels, inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = layer.loss(labels, inputs)
        sources = [inputs, *(v.value for v in variables)]
        of_inputs, *gradients = tape.gradient(loss, sources)
        optimizer.apply(gradients, variables)
        return loss, of_inputs

    return step.get_concrete_function(
        tf.TensorSpec([sizes.batch], tf.int64),
        tf.TensorSpec([sizes.batch, sizes.width]),
    )


def _turn(step, labels, inputs, number):
    labels = tf.constant(labels[number])
    return timing.seconds_of(lambda: step(labels, inputs)[0].numpy())
