"""The benchmark of weights of 8 and 4 bits, on a tiny head."""

from benchmarks.compression import label_tree
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


def test_a_label_tree(monkeypatch, tmp_path, capsys):
    measure_here(monkeypatch)
    monkeypatch.setattr(label_tree, "_STEPS", 3)
    report = figures_of(
        "compression",
        tmp_path,
        "--labels=300",
        "--batch=2",
        "--repetitions=1",
    )
    (found,) = (head["result"] for head in report["heads"])
    rows, types = found["head"]["rows"], found["types"]
    assert [types[name]["bytes"] for name in types] == [
        4 * rows * 128,
        rows * (128 + 4),
        rows * (64 + 8),
    ]
    assert types["float32"]["top_1"] == 1
    loss = types["float32"]["loss"]
    for name in ("int8", "int4"):
        assert 0 < abs(types[name]["loss"] / loss - 1) < 0.1
    assert found["batches"]["2"]["int8"]["p50_ms"] > 0
    assert "loss" in capsys.readouterr().out


def test_the_original_rows_rank_anew(monkeypatch, tmp_path, capsys):
    measure_here(monkeypatch)
    report = figures_of(
        "compression",
        tmp_path,
        "--workload=tiny",
        "--distribution=flat",
        "--rescore=20,1000",
        "--batch=2",
        "--repetitions=1",
    )
    (found,) = (head["result"] for head in report["heads"])
    answers = found["answers"]
    assert answers["float32"]["top_k"] == 1 > answers["int4"]["top_k"]
    for place in ("memory", "file"):
        all_of_them = answers[f"int4, 1000 anew, {place}"]
        assert all_of_them == {"top_1": 1, "top_k": 1, "certain": 1}
        few = answers[f"int4, 20 anew, {place}"]
        assert answers["int4"]["top_k"] < few["top_k"]
        assert found["batches"]["2"][f"int8, 20 anew, {place}"]["p50_ms"] > 0
    assert "certain" in capsys.readouterr().out
