"""The benchmark of heads through Keras, on small heads."""

from tests.support.benchmarks import figures_of, measure_here


def test_it_prints_a_table_and_writes_json(tmp_path, monkeypatch, capsys):
    measure_here(monkeypatch)
    arguments = ("--classes=400", "--repetitions=2")
    report = figures_of("layers", tmp_path, *arguments)
    output = capsys.readouterr().out
    assert len(report["heads"]) == 5 and report["classes"] == 400
    for entry in report["heads"]:
        assert f"\n{entry['head']} " in output
        assert len(entry["samples_ms"]) == 2
        assert entry["step_ms"] > 0 and entry["trace_ms"] > 0


def test_fit_beside_the_fused_step(tmp_path, monkeypatch, capsys):
    measure_here(monkeypatch)
    arguments = ("--what=fit", "--workload=tiny", "--repetitions=2")
    (entry,) = figures_of("layers", tmp_path, *arguments)["fit"]
    assert f"\n{entry['case']} " in capsys.readouterr().out
    for name in ("fused", "fit"):
        assert len(entry[name]["samples_ms"]) == 2
        assert entry[name]["ms"] > 0
