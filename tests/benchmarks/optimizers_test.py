"""The optimizers' benchmark on a small table."""

import subprocess
import sys

import numpy as np
import pytest
from absl import flags

from benchmarks.common import update_rules
from benchmarks.optimizers import eight_bits, steps
from tests.support.benchmarks import figures_of, measure_here, run_main


def test_it_prints_a_table_and_writes_json(tmp_path, monkeypatch, capsys):
    measure_here(monkeypatch)
    report = figures_of(
        "optimizers",
        tmp_path,
        "--rows=1000",
        "--width=4",
        "--touched=10",
        "--repetitions=3",
    )
    output = capsys.readouterr().out
    assert [entry["rule"] for entry in report["rules"]] == list(
        update_rules.RULES
    )
    for entry in report["rules"]:
        assert f"\n{entry['rule']} " in output
        for whose in ("ours", "keras"):
            samples = entry[whose]["samples_ms"]
            assert len(samples) == 3
            assert entry[whose]["ms"] == sorted(samples)[1]
    assert report["sizes"] == {"rows": 1000, "width": 4, "touched": 10}
    assert "Keras' plain SGD" in output


def test_slots_of_eight_bits(tmp_path, monkeypatch, capsys):
    measure_here(monkeypatch)
    report = figures_of(
        "optimizers",
        tmp_path,
        "--eight_bits",
        "--rows=1000",
        "--width=4",
        "--touched=10",
        "--repetitions=3",
    )
    (slots,) = report["slots"]
    assert len(slots) == 4
    assert all(len(times["samples_ms"]) == 3 for times in slots.values())
    assert "x float32" in capsys.readouterr().out


def test_codes_of_slots():
    """A slot returns what was written, up to the distance of the codes."""
    sizes = steps.Sizes(rows=6, width=500, touched=3)
    rng = np.random.default_rng(0)
    values = rng.normal(size=[3, 500]).astype("float32")
    values[0] *= 1e-6
    rows = np.array([1, 4, 5])
    for is_signed in (True, False):
        numbers = eight_bits.dynamic_map(is_signed)
        assert np.unique(numbers).size == 256 and numbers.max() == 1
        assert (numbers.min() < 0) == is_signed
        slot = eight_bits.DynamicSlot(sizes, is_signed)
        written = values if is_signed else values**2
        assert not slot.read(rows).numpy().any()
        slot.write(rows, written)
        scales = abs(written).max(axis=1, keepdims=True)
        gaps = abs(written[..., np.newaxis] / scales[..., np.newaxis] - numbers)
        expected = numbers[np.argmin(gaps, axis=-1)] * scales
        np.testing.assert_allclose(slot.read(rows), expected, rtol=1e-5)
    slot = eight_bits.LinearRoots(sizes)
    slot.write(rows, values**2)
    error = abs(np.sqrt(slot.read(rows)) - abs(values))
    assert (error <= abs(values).max(axis=1, keepdims=True) / 509).all()
    assert not slot.read([0, 2, 3]).numpy().any()


def test_what_cannot_be_is_refused():
    with pytest.raises(
        flags.IllegalFlagValueError, match="must be at most --rows"
    ):
        run_main("optimizers", "--rows=9", "--touched=10")
    # As a user runs it.
    command = [sys.executable, "-m", "benchmarks.optimizers.main"]
    result = subprocess.run(
        [*command, f"--rows={10**12}"], capture_output=True, text=True
    )
    assert result.returncode == 1
    assert "needs" in result.stderr and "can be used" in result.stderr
