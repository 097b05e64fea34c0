"""The peak memory of one implementation, in a process of its own."""

import gc

import tensorflow as tf

from benchmarks.common import implementations, machine, peers, workloads

# The second meets what the first one left behind.
_STEPS = 2


def measure(case, name, phases, settings):
    """Runs some steps of each phase and reads what the process had at most.

    To be called in a process of its own. What TensorFlow keeps for later steps
    counts, as do the tree's tensors; what tracing needed for a while does not.

    Args:
      case: a `Case`.
      name: of an implementation, or of another library.
      phases: those to run; memory is kept from one to the next, so that their
        figures ascend.
      settings: `timing.Settings`.

    Returns:
      A dict of bytes: "parameters", and for each phase the peak beyond the
      resident size after the parameters were made.
    """
    machine.use_threads(settings.threads)
    if name in peers.PEERS:
        labels = workloads.draw_labels(case, _STEPS, seed=1)
        return peers.Peer(name, case, labels, settings).memory(phases)
    implementation = implementations.IMPLEMENTATIONS[name]
    tree = workloads.make_tree(case)
    num_rows = implementation.num_rows(tree)
    labels = workloads.draw_labels(case, _STEPS, seed=1)
    inputs = implementations.make_inputs(case)
    parameters = implementations.make_parameters(num_rows, case)
    gc.collect()
    resident = machine.resident_bytes()
    extra = {}
    for phase in phases:
        step = implementations.make_step(
            implementation.loss, phase, parameters, tree, case
        )
        extra[phase] = peak_of(step, labels, inputs) - resident
    return {
        "parameters": implementations.parameter_bytes(num_rows, case),
        "extra": extra,
    }


def peak_of(step, labels, inputs):
    """Returns the peak of this process over one step per row of labels."""
    machine.restart_peak()
    for row in labels:
        step(tf.constant(row), inputs)
    return machine.peak_bytes()
