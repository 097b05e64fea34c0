"""A machine that is measured in a moment."""

from tf_hsm.cost.model import CostModel
from tf_hsm.estimation import machine_calibration, machine_rates, machine_times


def quick_machine(monkeypatch):
    """Measures small operands; returns a list that grows with each call."""
    calls = []

    def cost_model(width, repetitions):
        calls.append((width, repetitions))
        return CostModel()

    monkeypatch.setattr(machine_rates, "STREAM_BYTES", 1 << 20)
    monkeypatch.setattr(machine_rates, "MATRIX_SIZE", 64)
    for name, value in (
        ("_KERNELS", 5),
        ("_NEW_BYTES", 1 << 20),
        ("_REPETITIONS", 2),
        ("_NARROW", 32),
        ("_WIDE", 64),
    ):
        monkeypatch.setattr(machine_times, name, value)
    monkeypatch.setattr(machine_calibration, "calibrate_cost_model", cost_model)
    return calls
