"""The benchmark of weights of 8 and 4 bits, on a tiny head."""

from tests.support.benchmarks import figures_of, measure_here


def test_it_measures_every_type(monkeypatch, tmp_path, capsys):
    measure_here(monkeypatch)
    report = figures_of(
        "compression",
        tmp_path,
        "--workload=tiny",
        "--distribution=flat,peaked",
        "--batch=2",
        "--repetitions=1",
    )
    for head in report["heads"]:
        types = head["result"]["types"]
        sizes = [found["bytes"] for found in types.values()]
        rows, width = head["result"]["head"]["rows"], 16
        assert sizes == [
            4 * rows * width,
            2 * rows * width,
            rows * (width + 4),
            rows * (width // 2 + 4),
        ]
        assert types["float32"]["top_1"] == 1 > types["int4"]["top_1"] > 0.5
        is_peaked = head["distribution"] == "peaked"
        assert (types["int8"]["perplexity"] is not None) == is_peaked
        assert head["result"]["batches"]["2"]["int8"]["p50_ms"] > 0
    peaked = report["heads"][1]["result"]["types"]
    change = peaked["int8"]["perplexity"] / peaked["float32"]["perplexity"]
    assert 0.98 < change < 1.02
    assert "top-1 equal" in capsys.readouterr().out
