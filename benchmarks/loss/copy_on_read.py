"""What the first sparse update of a variable does to the steps after it.

It sets the variable's copy-on-read mode, as `tf.gather` from it does: from then
on every op that reads the variable as a tensor copies it as a whole. Ours reads
it through its handle.
"""

import gc

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import (
    implementations,
    limits,
    machine,
    memory,
    timing,
    workloads,
)
from tf_hsm import baselines


def _gather_of_tensor(weights, biases, labels, inputs, tree):
    tensors = [tf.convert_to_tensor(weights), tf.convert_to_tensor(biases)]
    return baselines.gather_loss(*tensors, labels, inputs, tree)


# Name in the table -> (name for the limits, loss function).
READERS = {
    "ours, on the handle": ("ours", tf_hsm.hierarchical_softmax_loss),
    "gather, on the tensor read": ("gather", _gather_of_tensor),
}


def measure(case, reader, phase, settings):
    """Times a step before and after one sparse update.

    To be called in a process of its own: in the memory that TensorFlow keeps
    from another step, a copy would not show.

    Args:
      case: a `Case`.
      reader: one of `READERS`.
      phase: "forward" or "forward_backward".
      settings: `timing.Settings`.

    Returns:
      {"refused": why}, or {"before", "after"}: dicts of "ms", a median, and
      "extra_bytes", the peak beyond the resident size with the parameters.
    """
    machine.use_threads(settings.threads)
    room = limits.of(settings)
    name, loss = READERS[reader]
    tree = workloads.make_tree(case)
    labels = workloads.draw_labels(case, settings.repetitions)
    parameter_bytes = implementations.parameter_bytes(tree.num_rows, case)
    refusal = room.refusal(
        parameter_bytes,
        limits.step_bytes(limits.part_of(name, phase, tree, case))
        + (parameter_bytes if loss is _gather_of_tensor else 0),
        seconds=0,
    )
    if refusal:
        return {"refused": refusal}
    inputs = implementations.make_inputs(case)
    parameters = implementations.make_parameters(tree.num_rows, case)
    gc.collect()
    resident = machine.resident_bytes()
    step = implementations.make_step(loss, phase, parameters, tree, case)

    def state():
        peak = memory.peak_of(step, labels[:2], inputs)
        seconds = [
            timing.seconds_of(step, tf.constant(row), inputs) for row in labels
        ]
        return {
            "ms": 1000 * float(np.median(seconds)),
            "extra_bytes": peak - resident,
        }

    before = state()
    parameters.weights.scatter_sub(
        tf.IndexedSlices(tf.zeros([1, case.sizes.width], case.dtype), [0])
    )
    return {"before": before, "after": state()}
