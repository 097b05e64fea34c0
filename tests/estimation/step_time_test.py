"""Seconds of parts, against counts by hand."""

import pytest

from tf_hsm.estimation import step_time
from tf_hsm.estimation.machine import Machine
from tf_hsm.estimation.part import Part, Product, Work
from tf_hsm.estimation.setting import Setting


def _machine(**numbers):
    numbers = {"flops": 1e9, "read_write": 1e8, "op": 0, **numbers}
    return Machine.from_dict(numbers)


_MACHINE = _machine(flops={"float32": 1e9, "bfloat16": 4e9}, op=1e-3)


def _setting(compute_dtype="float32"):
    return Setting(1, 1, "float32", compute_dtype, None)


def test_arithmetic_or_memory_binds_and_kernels_come_on_top():
    part = Part(
        "p",
        "Dense",
        forward=Work(2e9, 1e6, 3),
        backward=Work(1e6, 3e8, 5),
        update=Work(0, 1e8, 1),
    )
    ((forward, backward, update),) = step_time.seconds(
        [part], _MACHINE, _setting()
    )
    assert forward == pytest.approx(2 + 0.003)
    assert backward == pytest.approx(3 + 0.005)
    assert update == pytest.approx(1 + 0.001)


def test_the_type_of_activations_counts_for_the_passes():
    part = Part("p", "Dense", forward=Work(4e9), update=Work(1e9))
    ((forward, _, update),) = step_time.seconds(
        [part], _MACHINE, _setting("bfloat16")
    )
    assert (forward, update) == (1, 1)


def test_what_a_part_says_itself_is_shared_among_the_passes():
    part = Part(
        "p",
        "Tree",
        forward=Work(1e9),
        backward=Work(2e9),
        update=Work(1e9),
        seconds=lambda machine: 8 * machine.op,
    )
    unknown = Part("q", "Tree", seconds=lambda machine: 0.3)
    assert step_time.seconds([part, unknown], _MACHINE, _setting()) == [
        pytest.approx((0.008 / 3, 0.016 / 3, 1)),
        pytest.approx((0.1, 0.2, 0)),
    ]


def test_products_take_their_own_time_and_the_rest_its():
    own = _machine(half=100)
    product = Product(100, 1000, 1000, count=3)
    moved = 3 * 4 * (100 * 1000 * 2 + 1000**2)
    work = Work(product.flops + 5e8, moved + 1e8, 10, products=(product,))
    by_hand = 2 * product.flops / 1e9 + 1.0
    assert step_time.of_work(work, own, "float32") == pytest.approx(by_hand)
    twice = step_time.of_work(work.times(2), own, "float32")
    assert twice == pytest.approx(2 * by_hand)
    both = step_time.of_work(work + Work(0, 1e8), own, "float32")
    assert both == pytest.approx(by_hand + 1)


def test_new_memory_is_filled_at_its_own_rate():
    own = _machine(fresh=1e7)
    work = Work(0, 3e8, new=1e8)
    assert step_time.of_work(work, own, "float32") == pytest.approx(2 + 10)


def test_exponentials_come_on_top():
    own = _machine(softmax=1e-9)
    work = Work(0, 1e8, softmax=2e9).times(2)
    assert step_time.of_work(work, own, "float32") == pytest.approx(2 * 3)
