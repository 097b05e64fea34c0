"""A step in place: by `fit`, and by the function of the fused step."""

import time

import keras
import tensorflow as tf

import tf_hsm
from benchmarks.common import implementations, machine, timing, workloads

_OPTIMIZER = "sgd"


def measure(case, repetitions, threads):
    """Times both steps of one head in turns.

    To be called in a process of its own.

    Args:
      case: a `Case`.
      repetitions: steps for each figure.
      threads: how many this process may use.

    Returns:
      "fused" and "fit" -> {"ms", "samples_ms"}, of CPU time.
    """
    machine.use_threads(threads)
    tree = workloads.make_tree(case)
    inputs = implementations.make_inputs(case)
    labels = workloads.draw_labels(case, 1 + repetitions)
    head = tf_hsm.layers.HierarchicalSoftmax(tree, optimizer=_OPTIMIZER)
    model = keras.Sequential([keras.Input([case.sizes.width]), _Shift(), head])
    model.compile("sgd", head.loss)
    model.make_train_function()  # what `fit` calls for each step

    def fit(turn):
        data = tf.data.Dataset.from_tensors((inputs, labels[turn]))
        return _seconds_of(model.train_function, iter(data))

    @tf.function
    def step(labels):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = tf_hsm.hierarchical_softmax_train_step(
                head.kernel, head.bias, labels, inputs, tree, head.optimizer
            )
            mean = tf.reduce_mean(losses)
        return mean, tape.gradient(mean, inputs)

    def fused(turn):
        return _seconds_of(step, tf.constant(labels[turn]))

    turns = {"fused": fused, "fit": fit}
    samples = timing.interleave(turns, repetitions, lambda: None)
    return {name: timing.milliseconds(s) for name, s in samples.items()}


class _Shift(keras.layers.Layer):
    """A body of one number, which asks for the gradient of the head's inputs.

    No other body costs less.
    """

    def build(self, inputs_shape):
        self.number = self.add_weight(shape=(), initializer="zeros")

    def call(self, inputs):
        return inputs + self.number


def _seconds_of(step, *args):
    return timing.seconds_of(step, *args, clock=time.process_time)
