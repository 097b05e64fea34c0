"""Machines by name, by numbers and measured."""

import dataclasses
import json

import pytest

from tf_hsm.cost.model import CostModel
from tf_hsm.estimation import calibration
from tf_hsm.estimation.calibration import machine_of
from tf_hsm.estimation.machine import DEFAULT, MACHINES
from tf_hsm.estimation.part import Product


def test_without_a_machine_it_is_the_default():
    source = "not this machine, which machine='here' measures"
    assert machine_of(None) == dataclasses.replace(
        MACHINES[DEFAULT], source=source
    )


@pytest.mark.parametrize("name", MACHINES)
def test_a_name_is_one_of_the_table(name):
    known = machine_of(name)
    assert known.rate("bfloat16") <= known.rate("float16")
    assert known.rate("float64") < known.rate("float32")
    assert known.read <= known.read_write < known.rate("float32")
    assert hash(known) == hash(dataclasses.replace(known))


def test_rates_of_the_table_are_below_those_of_data_sheets():
    h100 = machine_of("nvidia-h100")
    assert 0.5 < h100.rate("bfloat16") / 989e12 < 1
    assert 0.5 < h100.read_write / 3.35e12 < 1
    assert h100.memory == 80e9


def test_numbers():
    own = machine_of({"flops": 1e12, "read_write": 1e11, "memory": 8e9})
    assert own.rate("float32") == own.rate("bfloat16") == 1e12
    assert own.rate("float64") == 5e11
    assert (own.read, own.memory) == (1e11, 8e9)
    # 6 FLOPs for each product, 12 bytes for each touched weight.
    ms = own.cost_model.milliseconds(1000, 100, width=300)
    beside_call = ms - own.cost_model.call
    by_hand = 6 * 1000 * 100 * 300 / 1e12
    by_hand += (12 * 1000 * 300 + 8 * 1000 * 100) / 1e11
    assert beside_call == pytest.approx(1e3 * by_hand)
    assert machine_of(own) is own


def test_a_machine_survives_json():
    own = machine_of(
        {
            "flops": {"float32": 1e12, "bfloat16": 3e12},
            "read_write": 1e11,
            "cost_model": CostModel(call=1.0),
        }
    )
    values = json.loads(json.dumps(own.to_dict()))
    assert machine_of(values) == own


def test_product():
    own = machine_of(
        {"flops": 1e12, "read_write": 1e11, "half": 16, "transpose": 1e-9}
    )
    # Arithmetic binds: the smallest dimension, 16, halves the rate.
    product = Product(16, 4096, 4096)
    seconds = 2 * 2 * 16 * 4096**2 / 1e12
    assert own.product(product, "float32") == pytest.approx(seconds)
    # Memory binds.
    vector = Product(1000, 1, 1000, count=7)
    assert own.product(vector, "float32") == pytest.approx(
        7 * 4 * (1000**2 + 2000) / 1e11
    )
    # The other way round: 16 rows of 1,024 save little.
    turned = product._replace(transposed=True)
    assert own.product(turned, "float32") == pytest.approx(
        seconds + 1e-9 * 4096**2 * (1 - 16 / 1024)
    )


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("abacus", ValueError, "'abacus'; it must be 'here' or one of cpu-2"),
        (3, TypeError, "machine must be a name, .* not int"),
        ({"flops": 1e12}, ValueError, "must have 'flops' and 'read_write'"),
        ({"speed": 1}, ValueError, "machine has 'speed'; its numbers are "),
        ({"flops": 0, "read": 1}, ValueError, r"flops\['float32'\] .* above 0"),
        ({"flops": 1, "read": -1}, ValueError, "read of the machine is -1"),
        ({"flops": 1, "read": 1, "op": -1}, ValueError, "op .* at least 0"),
        ({"flops": {"int8": 1}, "read": 1}, ValueError, "FLOP/s of .float32"),
        ({"flops": {"float32": 1, "x": 1}, "read": 1}, ValueError, "names 'x'"),
        ({"flops": 1, "read": 1, "cost_model": 3}, TypeError, "CostModel, not"),
    ],
)
def test_what_is_no_machine_is_refused(value, error, message):
    with pytest.raises(error, match=message):
        machine_of(value)


def test_a_process_measures_this_machine_once(monkeypatch):
    monkeypatch.setattr(calibration, "STREAM_BYTES", 1 << 20)
    monkeypatch.setattr(calibration, "MATRIX_SIZE", 64)
    calibration._here.cache_clear()
    here = machine_of("here")
    assert machine_of("here") is here
    calibration._here.cache_clear()
    usual = MACHINES[DEFAULT]
    assert here.source == "measured here" and here.name != usual.name
    assert min(here.read, here.read_write, here.rate("bfloat16")) > 1e6
    assert here.memory > 1e8
    # What is not measured follows the rates.
    slower = usual.rate("float32") / here.rate("float32")
    product = usual.cost_model.product * slower
    assert here.cost_model.product == pytest.approx(product)
    assert here.fresh / usual.fresh == pytest.approx(
        here.read_write / usual.read_write
    )
    assert machine_of(json.loads(json.dumps(here.to_dict()))) == here
