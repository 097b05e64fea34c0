"""Machines by name, by numbers and measured."""

import dataclasses
import json

import pytest

from tests.support.machines import quick_machine
from tf_hsm.cost.model import CostModel
from tf_hsm.estimation import machine, machine_calibration, machine_sheets
from tf_hsm.estimation.part import Product


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_without_a_calibration_none_is_the_default():
    default = machine_sheets.MACHINES[machine_sheets.DEFAULT]
    source = "not this machine, which estimation.calibrate() measures"
    assert machine.of() == dataclasses.replace(default, source=source)


def test_a_measurement_of_a_second(monkeypatch):
    """Rates of this machine, which no file keeps."""
    quick_machine(monkeypatch)
    default = machine_sheets.MACHINES[machine_sheets.DEFAULT]
    found = machine_calibration.quick()
    assert machine_calibration.cached() is None
    assert "measured here for a second" in found.source
    assert found.name != default.name and found.memory > 1e8
    slower = default.rate("float32") / found.rate("float32")
    model = found.cost_model
    assert model.product == pytest.approx(default.cost_model.product * slower)
    assert found.read_write != default.read_write


@pytest.mark.parametrize("name", machine_sheets.MACHINES)
def test_a_name_is_one_of_the_table(name):
    known = machine.of(name)
    assert known.rate("bfloat16") <= known.rate("float16")
    assert known.rate("float64") < known.rate("float32")
    assert known.read <= known.read_write < known.rate("float32")


def test_rates_of_the_table_are_below_those_of_data_sheets():
    h100 = machine.of("nvidia-h100")
    assert 0.5 < h100.rate("bfloat16") / 989e12 < 1
    assert 0.5 < h100.read_write / 3.35e12 < 1
    assert h100.memory == 80e9


def test_numbers():
    own = machine.of({"flops": 1e12, "read_write": 1e11, "memory": 8e9})
    assert own.rate("float32") == own.rate("bfloat16") == 1e12
    assert own.rate("float64") == 5e11
    assert (own.read, own.memory) == (1e11, 8e9)
    # 6 FLOPs for each product, 12 bytes for each touched weight.
    ms = own.cost_model.milliseconds(1000, 100, width=300)
    beside_call = ms - own.cost_model.call
    by_hand = 6 * 1000 * 100 * 300 / 1e12
    by_hand += (12 * 1000 * 300 + 8 * 1000 * 100) / 1e11
    assert beside_call == pytest.approx(1e3 * by_hand)
    assert machine.of(own) is own


def test_a_machine_survives_json():
    own = machine.of(
        {
            "flops": {"float32": 1e12, "bfloat16": 3e12},
            "read_write": 1e11,
            "cost_model": CostModel(call=1.0),
        }
    )
    values = json.loads(json.dumps(own.to_dict()))
    assert machine.of(values) == own


def test_product():
    own = machine.of(
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
    many = Product(2048, 4096, 4096)
    assert own.product(many, "float32") == own.product(
        many._replace(transposed=True), "float32"
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
        (
            {"flops": {"float32": 1, "int8": 1}, "read": 1},
            ValueError,
            "names 'int8'; types are float16",
        ),
        (
            {"flops": 1, "read": 1, "cost_model": 3},
            TypeError,
            "must be a CostModel, not int",
        ),
    ],
)
def test_what_is_no_machine_is_refused(value, error, message):
    with pytest.raises(error, match=message):
        machine.of(value)


def test_calibrate_measures_once_and_remembers(monkeypatch, capsys, tmp_path):
    calls = quick_machine(monkeypatch)
    here = machine_calibration.calibrate(verbose=True)
    assert "trees" in capsys.readouterr().out
    assert here.rate("float32") > 1e6
    assert min(here.read, here.read_write, here.fresh) > 1e6
    assert 0 < here.op < 1
    assert here.memory > 1e8
    assert machine.of() == machine.of("here") == here
    assert len(calls) == 1
    machine_calibration.calibrate(refresh=True)
    assert len(calls) == 2
    assert not capsys.readouterr().out
    assert [p.name for p in (tmp_path / "tf_hsm").iterdir()] == ["machine.json"]


def test_a_cache_that_cannot_be_read_or_written_is_none(monkeypatch, tmp_path):
    quick_machine(monkeypatch)
    here = machine_calibration.calibrate()
    path = tmp_path / "tf_hsm" / "machine.json"
    for text in ("{", "[]", path.read_text().replace('"float32"', '"f32"')):
        path.write_text(text)
        assert machine_calibration.cached() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))  # a file, no folder
    again = machine_calibration.calibrate()
    assert machine_calibration.cached() is None
    assert again.memory == here.memory


def test_another_number_of_threads_is_another_machine(monkeypatch):
    quick_machine(monkeypatch)
    machine_calibration.calibrate()
    monkeypatch.setattr(machine_calibration, "_threads", lambda: 99)
    assert machine_calibration.cached() is None


def test_a_machine_has_a_hash():
    own = machine.of("nvidia-t4")
    assert hash(own) == hash(dataclasses.replace(own))
