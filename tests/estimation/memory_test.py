"""The peak of a step, against a simulation of each moment by hand."""

import dataclasses

import numpy as np
import pytest

from tf_hsm.estimation import peak_memory
from tf_hsm.estimation.part import Part

FIELDS = [
    field.name
    for field in dataclasses.fields(Part)
    if field.name.endswith("_bytes") and field.name != "tensor_bytes"
]
LARGE = peak_memory.GIVEN_BACK


def draw_parts(seed, count, unit=1):
    rng = np.random.default_rng(seed)
    return [
        Part(
            f"layer {i}",
            "drawn",
            **{name: int(unit * rng.integers(100)) for name in FIELDS},
            tensor_bytes=int(rng.choice([0, LARGE])),
        )
        for i in range(count)
    ]


def moments(parts):
    """What is alive at each moment: a list of (part, what)."""
    always = [
        (i, what)
        for i in range(len(parts))
        for what in ("parameter_bytes", "slot_bytes", "constant_bytes")
    ]
    made = []
    for i in range(len(parts)):
        made += [(i, "parameter_bytes"), (i, "constant_bytes")]
        yield [*made, (i, "making_bytes")]
    for i in range(len(parts)):
        yield [*always, (i, "filling_bytes")]
    saved, gradients = [], []
    for i in range(len(parts)):
        saved.append((i, "saved_bytes"))
        yield [*always, *saved, (i, "forward_bytes")]
    for i in reversed(range(len(parts))):
        gradients.append((i, "gradient_bytes"))
        now = [(i, "backward_bytes"), (i, "update_bytes")]
        yield [*always, *saved, *gradients, *now]
        saved.remove((i, "saved_bytes"))
    updates = [(i, "update_bytes") for i in range(len(parts))]
    yield [*always, *gradients, *updates]


def tensor_bytes(part, what):
    """The size of a tensor that decides whether it is given back."""
    if what in ("saved_bytes", "forward_bytes", "backward_bytes"):
        return part.tensor_bytes
    if what in ("parameter_bytes", "slot_bytes", "constant_bytes"):
        return LARGE
    return getattr(
        part, "gradient_bytes" if "gradient" in what else "parameter_bytes"
    )


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("unit", [1, LARGE // 50])
def test_the_peak_of_a_step(count, unit):
    for seed in range(50):
        parts = draw_parts(seed, count, unit)
        expected = most_small = 0
        for alive in moments(parts):
            large = small = 0
            for i, what in alive:
                if tensor_bytes(parts[i], what) >= LARGE:
                    large += getattr(parts[i], what)
                else:
                    small += getattr(parts[i], what)
            most_small = max(most_small, small)
            expected = max(expected, large + most_small)
        assert peak_memory.peak_bytes(parts) == expected


def test_without_training_nothing_is_kept():
    parts = [part.untrained() for part in draw_parts(0, 3)]
    assert not any(p.saved_bytes or p.gradient_bytes for p in parts)
    assert not any(p.backward_bytes for p in parts)
    drawn = draw_parts(0, 3)
    for part, before in zip(parts, drawn, strict=True):
        now = before.forward_bytes + before.saved_bytes
        assert part.forward_bytes == now
