"""The optimizers' benchmark on a small table."""

import subprocess
import sys

import pytest
from absl import flags

from benchmarks.common import update_rules
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
