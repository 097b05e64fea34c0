"""The benchmark of an adaptive softmax' steps, on a small one."""

import json

from benchmarks.adaptive_step import steps
from tests.support.benchmarks import measure_here, run_main


def test_it_prints_a_table_and_writes_json(tmp_path, monkeypatch, capsys):
    measure_here(monkeypatch)
    path = tmp_path / "figures.json"
    run_main(
        "adaptive_step",
        "--classes=3000",
        "--width=16",
        "--batch=20",
        "--optimizer=LazyAdam",
        "--repetitions=3",
        f"--json={path}",
    )
    output = capsys.readouterr().out
    report = json.loads(path.read_text())
    names = [steps.IN_PLACE, steps.THEN_OPTIMIZER]
    assert [entry["step"] for entry in report["steps"]] == names
    for entry in report["steps"]:
        assert f"\n{entry['step']} " in output
        assert len(entry["samples_ms"]) == 3
        assert entry["ms"] == sorted(entry["samples_ms"])[1]
        assert entry["extra"] >= 0
    assert report["sizes"] == {"classes": 3000, "width": 16, "batch": 20}
    assert "3,000 classes, width 16, batch 20, LazyAdam; cutoffs [" in output
