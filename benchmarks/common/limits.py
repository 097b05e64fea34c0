"""Refuses what cannot fit into memory or takes far too long, untried."""

from benchmarks.common import implementations, machine, units
from tf_hsm import baselines

# Allocators round up, and the rest of the machine is not idle.
_USABLE_SHARE = 0.9

# kMaxKeptBytes of cc/core: above it the op makes probabilities again instead of
# keeping them.
_MAX_KEPT_BYTES = 256 << 20


def step_bytes(name, phase, tree, case, work):
    """Estimates what a step needs beside parameters and inputs.

    The baselines' figures are those of `tf_hsm.baselines.peak_bytes`. Ours are
    the float32 probabilities, as long as they are kept, and the weight gradient
    of the touched rows. A dense gradient is once more there as it is applied,
    times the learning rate.
    """
    itemsize = implementations.itemsize(case)
    width = case.sizes.width
    gradient = phase != "forward"
    if name == "ours":
        probs = 4 * int(work.scored_rows.sum())
        if probs > _MAX_KEPT_BYTES:
            probs = 0
        touched = int(work.touched_rows.sum()) * (width + 1) * itemsize
        return probs + touched if gradient else probs
    implementation = implementations.IMPLEMENTATIONS[name]
    update = 0
    if phase == "sgd" and not implementation.sparse:
        update = implementation.num_rows(tree) * width * itemsize
    return update + baselines.peak_bytes(
        "full_softmax" if name == "full" else name,
        tree,
        case.sizes.batch,
        width,
        itemsize,
        gradient,
    )


def step_seconds(name, phase, tree, case, rates):
    """Estimates how long a step of the slow ones takes, at least.

    full multiplies all classes with all examples, once forward and twice
    backward, and so do all others on a tree that is one group. The gradient of
    map_fn is made dense for each group of each example: zeros written, then
    read and added to the sum. Others count as 0.
    """
    classes, width = case.sizes.num_classes, case.sizes.width
    if name == "full" or tree.depth == 1:
        products = 1 if phase == "forward" else 3
        return products * 2 * case.sizes.batch * classes * width / rates.flops
    if name == "map_fn" and phase != "forward":
        dense = tree.num_rows * width * implementations.itemsize(case)
        groups = case.sizes.batch * tree.depth
        return 3 * groups * dense / rates.read_write
    return 0.0


def of(settings):
    """The `Limits` of `timing.Settings`."""
    return Limits(
        settings.memory_limit or machine.available_bytes(),
        settings.time_limit,
    )


class Limits:
    """What is left of memory, and the time that a step may take."""

    def __init__(self, memory_bytes, seconds):
        """Takes the memory for parameters and steps together, in bytes."""
        self._memory = memory_bytes * _USABLE_SHARE
        self._seconds = seconds

    def take(self, num_bytes):
        """Counts memory that stays in use."""
        self._memory -= num_bytes

    def refusal(self, parameter_bytes, step_bytes, seconds):
        """Returns why a step is not tried, or None if it can be.

        Args:
          parameter_bytes: of the parameters that would be made for it.
          step_bytes: what it needs beside them.
          seconds: what it takes at least.
        """
        if parameter_bytes + step_bytes > self._memory:
            own = units.of_bytes(parameter_bytes)
            return (
                f"needs {units.of_bytes(step_bytes)}"
                + (f" and {own} of parameters" if parameter_bytes else "")
                + f"; {units.of_bytes(max(self._memory, 0))} can be used"
            )
        if seconds > self._seconds:
            return (
                f"would take {seconds:,.0f} s a step at least; "
                f"the limit is {self._seconds:g} s"
            )
        return None
