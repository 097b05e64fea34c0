"""The peak of a step by simulation of each moment, its seconds by hand."""

import dataclasses

import numpy as np
import pytest

from tf_hsm.estimation import step
from tf_hsm.estimation.machine import Machine
from tf_hsm.estimation.part import Part, Product, Setting, Work

FIELDS = [
    field.name
    for field in dataclasses.fields(Part)
    if field.name.endswith("_bytes") and field.name != "tensor_bytes"
]
LARGE = step.GIVEN_BACK


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
        assert step.peak_bytes(parts) == expected


def test_without_training_nothing_is_kept():
    for before in draw_parts(0, 3):
        part = before.untrained()
        assert part.saved_bytes == part.gradient_bytes == 0
        assert part.backward_bytes == 0
        now = before.forward_bytes + before.saved_bytes
        assert part.forward_bytes == now


@pytest.mark.parametrize(
    ("part", "dtype", "seconds"),
    [
        # Arithmetic or memory binds, and kernels come on top.
        (
            Part(
                forward=Work(2e9, 1e6, 3),
                backward=Work(1e6, 3e8, 5),
                update=Work(0, 1e8, 1),
            ),
            "float32",
            (2 + 0.003, 3 + 0.005, 1 + 0.001),
        ),
        # The type of activations counts for the passes.
        (Part(forward=Work(4e9), update=Work(1e9)), "bfloat16", (1, 0, 1)),
        # The passes share what a part says itself.
        (
            Part(
                forward=Work(1e9),
                backward=Work(2e9),
                update=Work(1e9),
                seconds=lambda machine: 8 * machine.op,
            ),
            "float32",
            (0.008 / 3, 0.016 / 3, 1),
        ),
        (Part(seconds=lambda machine: 0.3), "float32", (0.1, 0.2, 0)),
    ],
)
def test_seconds_of_a_part(part, dtype, seconds):
    machine = Machine.from_dict(
        {
            "flops": {"float32": 1e9, "bfloat16": 4e9},
            **{"read_write": 1e8, "op": 1e-3},
        }
    )
    setting = Setting(1, 1, "float32", dtype, None)
    (found,) = step.seconds([part], machine, setting)
    assert found == pytest.approx(seconds)


# Each product moves its three matrices.
PRODUCT = Product(100, 1000, 1000, count=3)
MOVED = 3 * 4 * (100 * 1000 * 2 + 1000**2)


@pytest.mark.parametrize(
    ("numbers", "work", "seconds"),
    [
        # Products take their own time, at half the rate, and the rest its.
        (
            {"half": 100},
            Work(PRODUCT.flops + 5e8, MOVED + 1e8, 10, products=(PRODUCT,)),
            2 * PRODUCT.flops / 1e9 + 1,
        ),
        # New memory is filled at its own rate.
        ({"fresh": 1e7}, Work(0, 3e8, new=1e8), 2 + 10),
        # Exponentials come on top.
        ({"softmax": 1e-9}, Work(0, 1e8, softmax=2e9), 1 + 2),
    ],
)
def test_seconds_of_work(numbers, work, seconds):
    machine = Machine.from_dict(
        {"flops": 1e9, "read_write": 1e8, "op": 0, **numbers}
    )
    for more, expected in (
        (work, seconds),
        (work.times(2), 2 * seconds),
        (work + Work(0, 1e8), seconds + 1),
    ):
        found = step.of_work(more, machine, "float32")
        assert found == pytest.approx(expected)
