"""The peak memory of one training step, in a process of its own."""

import gc

from benchmarks.common import implementations, machine, timing, workloads
from benchmarks.train_step import steps

# The second meets what the first one left behind.
_STEPS = 2


def measure(case, rule, name, threads):
    """Makes the slots, runs some steps, and reads what the process had at most.

    To be called in a process of its own.

    Args:
      case: a `Case`.
      rule: one of `steps.RULES`.
      name: one of `steps.IMPLEMENTATIONS`.
      threads: the number of threads.

    Returns:
      A dict of bytes: "parameters", "slots", and "extra", the peak beyond the
      resident size with the parameters made and beyond the slots. What making
      the slots takes for a while counts; what tracing does, does not.
    """
    machine.use_threads(threads)
    tree = workloads.make_tree(case)
    labels = workloads.draw_labels(case, _STEPS, seed=1)
    inputs = implementations.make_inputs(case)
    parameters = implementations.make_parameters(tree.num_rows, case)
    gc.collect()
    resident = machine.resident_bytes()
    machine.restart_peak()
    optimizer = steps.make_optimizer(name, rule, parameters)
    peak = machine.peak_bytes()
    step = steps.make_step(name, optimizer, parameters, tree, case)
    peak = max(peak, timing.peak_of(step, labels, inputs))
    slots = steps.estimated(name, rule, tree, case).slot_bytes
    return {
        "parameters": implementations.parameter_bytes(tree.num_rows, case),
        "slots": slots,
        "extra": peak - resident - slots,
    }
