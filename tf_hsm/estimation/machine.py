"""The machine that an estimate is for, from what a user may give."""

import dataclasses
from collections.abc import Mapping

from tf_hsm.estimation import machine_calibration, machine_sheets
from tf_hsm.estimation.machine_type import Machine

__all__ = ["Machine", "of"]


def of(value=None):
    """Returns the `Machine` that a value stands for.

    Args:
      value: None for the one that `calibrate` measured here, if it did, else
        for two cores with AVX-512; "here" to measure this one now, unless it
        was; a name in `machine_sheets.MACHINES`; a dict of numbers as
        `Machine.from_dict` takes; or a `Machine`.

    Raises:
      ValueError: a name is unknown, or a dict has not what it must.
      TypeError: it is something else.
    """
    if value is None:
        default = dataclasses.replace(
            machine_sheets.MACHINES[machine_sheets.DEFAULT],
            source="not this machine, which estimation.calibrate() measures",
        )
        return machine_calibration.cached() or default
    if isinstance(value, Machine):
        return value
    if isinstance(value, Mapping):
        return Machine.from_dict(value)
    if not isinstance(value, str):
        raise TypeError(
            "machine must be a name, a dict of numbers or a Machine, not "
            f"{type(value).__name__}"
        )
    if value == "here":
        return machine_calibration.calibrate()
    if value not in machine_sheets.MACHINES:
        raise ValueError(
            f"machine is {value!r}; it must be 'here' or one of "
            f"{', '.join(machine_sheets.MACHINES)}"
        )
    return machine_sheets.MACHINES[value]
