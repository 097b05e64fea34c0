"""The peak of a step, against a simulation of each moment by hand."""

import numpy as np
import pytest

from tf_hsm.estimation import memory
from tf_hsm.estimation.part import Part

FIELDS = (
    "parameter_bytes",
    "gradient_bytes",
    "slot_bytes",
    "constant_bytes",
    "saved_bytes",
    "forward_bytes",
    "backward_bytes",
    "update_bytes",
    "making_bytes",
    "filling_bytes",
)


def draw_parts(seed, count):
    rng = np.random.default_rng(seed)
    return [
        Part(
            f"layer {i}",
            "drawn",
            **{name: int(rng.integers(100)) for name in FIELDS},
        )
        for i in range(count)
    ]


def moments(parts):
    """What is alive at each moment, as sets of (part, what), and its bytes."""
    always = {
        (i, what)
        for i in range(len(parts))
        for what in ("parameter_bytes", "slot_bytes", "constant_bytes")
    }
    made = set()
    for i in range(len(parts)):
        made |= {(i, "parameter_bytes"), (i, "constant_bytes")}
        yield made | {(i, "making_bytes")}
    for i in range(len(parts)):
        yield always | {(i, "filling_bytes")}
    saved, gradients = set(), set()
    for i in range(len(parts)):
        saved.add((i, "saved_bytes"))
        yield always | saved | {(i, "forward_bytes")}
    for i in reversed(range(len(parts))):
        gradients.add((i, "gradient_bytes"))
        yield always | saved | gradients | {(i, "backward_bytes")}
        saved.remove((i, "saved_bytes"))
    for i in range(len(parts)):
        yield always | gradients | {(i, "update_bytes")}


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_peak_of_a_step(count):
    for seed in range(50):
        parts = draw_parts(seed, count)
        expected = max(
            sum(getattr(parts[i], what) for i, what in alive)
            for alive in moments(parts)
        )
        assert memory.peak_bytes(parts) == expected


def test_nothing_needs_nothing():
    assert memory.peak_bytes([]) == 0
    assert memory.persistent_bytes([]) == 0


def test_without_training_nothing_is_kept():
    parts = draw_parts(0, 3)
    persistent = memory.persistent_bytes(parts)
    filling = max(p.filling_bytes for p in parts)
    forward = max(p.forward_bytes + p.saved_bytes for p in parts)
    peak = memory.peak_bytes(parts, training=False)
    # The draws of this seed have their peak there, not while they are made.
    assert peak == persistent + max(filling, forward)
