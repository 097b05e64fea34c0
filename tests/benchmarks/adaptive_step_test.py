"""The benchmark of an adaptive softmax' steps, on a small one."""

from benchmarks.adaptive_step import steps
from tests.support.benchmarks import figures_of, measure_here


def test_it_prints_a_table_and_writes_json(tmp_path, monkeypatch, capsys):
    measure_here(monkeypatch)
    report = figures_of(
        "adaptive_step",
        tmp_path,
        "--classes=3000",
        "--width=16",
        "--batch=20",
        "--optimizer=LazyAdam",
        "--repetitions=3",
    )
    output = capsys.readouterr().out
    names = [steps.IN_PLACE, steps.THEN_OPTIMIZER]
    assert [entry["step"] for entry in report["steps"]] == names
    for entry in report["steps"]:
        assert f"\n{entry['step']} " in output
        assert len(entry["samples_ms"]) == 3
        assert entry["ms"] == sorted(entry["samples_ms"])[1]
        assert entry["extra"] >= 0
    assert report["sizes"] == {"classes": 3000, "width": 16, "batch": 20}
    assert "3,000 classes, width 16, batch 20, LazyAdam; cutoffs [" in output
