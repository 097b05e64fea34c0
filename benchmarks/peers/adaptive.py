"""Our adaptive softmax, in a process of its own."""

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import machine, timing
from benchmarks.peers import ours


class Implementation:
    """`tf_hsm.layers.AdaptiveSoftmax` on the classes of a workload.

    Takes the same spec as `torch_adaptive`.
    """

    def __init__(self, spec):
        """Makes weights and inputs, both random."""
        machine.use_threads(spec["threads"])
        width, batch = spec["width"], spec["batch"]
        self._layer = tf_hsm.layers.AdaptiveSoftmax(
            spec["num_classes"],
            cutoffs=spec["cutoffs"],
            div_value=spec["div_value"],
            use_bias=False,
        )
        self._layer.build((None, width))
        self._inputs = tf.random.normal([batch, width], stddev=width**-0.5)
        self._labels = np.load(spec["labels"])
        self._steps = {"forward": self._forward, "forward_backward": self._both}
        self.facts = ours.facts(self._variables())

    def run(self, phase, turn):
        """Times one step: the loss and, if asked for, all gradients."""
        labels = tf.constant(self._labels[turn])
        seconds = timing.seconds_of(self._steps[phase], labels, self._inputs)
        return {"seconds": seconds, "pairs": labels.shape[0]}

    def _variables(self):
        return [v.value for v in self._layer.trainable_variables]

    @tf.function
    def _forward(self, labels, inputs):
        return tf.reduce_mean(self._layer(inputs, labels))

    @tf.function
    def _both(self, labels, inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = self._forward(labels, inputs)
        gradients = tape.gradient(loss, [inputs, *self._variables()])
        return tf.nest.flatten(gradients, expand_composites=True)
