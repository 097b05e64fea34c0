"""The peak memory of one implementation, in a process of its own."""

import gc

from benchmarks.common import implementations, machine, timing, workloads

# The second meets what the first one left behind.
_STEPS = 2


def measure(case, name, phases, threads):
    """Runs some steps of each phase and reads what the process had at most.

    To be called in a process of its own. What TensorFlow keeps for later steps
    counts, as do the tree's tensors; what tracing needed for a while does not.

    Args:
      case: a `Case`.
      name: of an implementation.
      phases: those to run; memory is kept from one to the next, so that their
        figures ascend.
      threads: the number of threads.

    Returns:
      A dict of bytes: "parameters", and for each phase the peak beyond the
      resident size after the parameters were made.
    """
    machine.use_threads(threads)
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
        extra[phase] = timing.peak_of(step, labels, inputs) - resident
    return {
        "parameters": implementations.parameter_bytes(num_rows, case),
        "extra": extra,
    }
