"""Hashes of results, to compare them bit by bit."""

import hashlib

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import implementations, machine, workloads


def measure(cases, threads):
    """Hashes our losses and gradients of one step of each case.

    To be called in a process of its own. The weights, inputs and labels are the
    same for every number of threads.

    Args:
      cases: `Case`s that differ in the batch only.
      threads: the number of threads.

    Returns:
      A list of hashes: of the losses, the gradients of inputs, weights and
      biases, and the rows that the latter two are of.
    """
    machine.use_threads(threads)
    tree = workloads.make_tree(cases[0])
    parameters = implementations.make_parameters(tree.num_rows, cases[0])

    @tf.function
    def step(labels, inputs):
        losses, gradients = implementations.losses_and_gradients(
            tf_hsm.hierarchical_softmax_loss, parameters, labels, inputs, tree
        )
        of_inputs, *slices = gradients
        parts = [part for s in slices for part in (s.values, s.indices)]
        return [losses, of_inputs, *parts]

    digests = []
    for case in cases:
        (labels,) = workloads.draw_labels(case, 1)
        inputs = implementations.make_inputs(case)
        digests.append(of(step(tf.constant(labels), inputs)))
    return digests


def of(results):
    """Hashes arrays: 16 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=8)
    for result in results:
        digest.update(np.ascontiguousarray(result).view(np.uint8))
    return digest.hexdigest()
