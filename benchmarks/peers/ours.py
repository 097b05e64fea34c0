"""Our loss, in a process of its own."""

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import implementations, machine, timing, workloads


class Implementation:
    """The loss of a case, and its gradients.

    The spec has "case", the fields of a `Case`, and "labels", the path of an
    array `[turns, B]`.
    """

    def __init__(self, spec):
        """Makes tree, weights and inputs."""
        machine.use_threads(spec["threads"])
        self._case = workloads.Case(*spec["case"])
        self._tree = workloads.make_tree(self._case)
        self._parameters = implementations.make_parameters(
            self._tree.num_rows, self._case
        )
        self._labels = np.load(spec["labels"])
        self._inputs = implementations.make_inputs(self._case)
        self._steps = {}
        self.facts = facts(self._parameters)

    def run(self, phase, turn):
        """Times one step."""
        if phase not in self._steps:
            self._steps[phase] = implementations.make_step(
                tf_hsm.hierarchical_softmax_loss,
                phase,
                self._parameters,
                self._tree,
                self._case,
            )
        labels = tf.constant(self._labels[turn])
        seconds = timing.seconds_of(self._steps[phase], labels, self._inputs)
        return {"seconds": seconds, "pairs": labels.shape[0]}


def facts(variables):
    """What an `Implementation` of ours says about itself."""
    return {
        "version": tf_hsm.__version__,
        "parameters": sum(int(tf.size(v)) for v in variables),
    }
