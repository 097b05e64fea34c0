"""Refuses what cannot fit into memory or takes far too long, untried."""

import dataclasses

from benchmarks.common import machine, units
from tf_hsm.estimation import heads, slots, step
from tf_hsm.estimation.machine import Machine
from tf_hsm.estimation.part import Setting

# Allocators round up, and the rest of the machine is not idle.
_USABLE_SHARE = 0.9


def estimated(what, tree, case, optimizer, rule=None):
    """Estimates a step of a head.

    Args:
      what: its name, for `tf_hsm.estimation.head`.
      tree: the tree of the case.
      case: a `Case`.
      optimizer: of the model, a name or a Keras optimizer.
      rule: in place, instead; or None.

    Returns:
      A `tf_hsm.estimation.part.Part`.
    """
    setting = Setting(
        case.sizes.batch, 1, case.dtype, case.dtype, slots.of(optimizer)
    )
    counts = "zipf" if case.labels == "zipf" else None
    head = heads.head(what, tree, counts=counts, optimizer=rule)
    (part,) = head.parts(setting, case.sizes.width)
    return part


def step_bytes(part):
    """Returns what a step needs beside parameters and slots that are there."""
    part = dataclasses.replace(part, making_bytes=0)
    return step.peak_bytes([part]) - step.persistent_bytes([part])


def step_seconds(part, rates, dtype):
    """Returns what a step takes at least, at `calibration.Rates`."""
    here = Machine(
        "here",
        flops={"float32": rates.flops},
        read=rates.read,
        read_write=rates.read_write,
        op=0.0,
        half=0.0,
    )
    passes = (part.forward, part.backward, part.update)
    return sum(step.of_work(work, here, dtype) for work in passes)


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
