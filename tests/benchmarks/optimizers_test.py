"""The optimizers' benchmark on a small table."""

import json

from benchmarks.common import update_rules
from tests.support.benchmarks import run_main


def test_it_prints_a_table_and_writes_json(tmp_path):
    path = tmp_path / "figures.json"
    result = run_main(
        "optimizers",
        "--rows=1000",
        "--width=4",
        "--touched=10",
        "--repetitions=3",
        f"--json={path}",
    )
    assert result.returncode == 0, result.stderr[-3000:]
    report = json.loads(path.read_text())
    assert [entry["rule"] for entry in report["rules"]] == list(
        update_rules.RULES
    )
    for entry in report["rules"]:
        assert f"\n{entry['rule']} " in result.stdout
        for whose in ("ours", "keras"):
            samples = entry[whose]["samples_ms"]
            assert len(samples) == 3
            assert entry[whose]["ms"] == sorted(samples)[1]
    assert report["sizes"] == {"rows": 1000, "width": 4, "touched": 10}
    assert "Keras' plain SGD" in result.stdout


def test_what_cannot_be_is_refused():
    assert (
        "must be at most --rows"
        in run_main("optimizers", "--rows=9", "--touched=10").stderr
    )
    result = run_main("optimizers", f"--rows={10**12}")
    assert result.returncode == 1
    assert "needs" in result.stderr and "can be used" in result.stderr
