"""What an estimate is shown as: tables, pictures, dicts."""

import json

import pytest

from tests.support import pictures
from tests.support.estimates import estimate
from tf_hsm.estimation import report


def test_tables():
    found = estimate("lstm:2x16", num_classes="1M", length=5, corpus_tokens=1e6)
    text = str(found)
    for what in ("lstm_2", "hierarchical", "total", "peak memory", "fits in"):
        assert what in text
    # Right columns end at one place.
    ends = {len(line) for line in text.splitlines()[1:5]}
    assert len(ends) == 1
    assert "hours" in text
    many = estimate(
        None,
        ["full", "sampled", "map_fn"],
        num_classes=500,
        width=4,
        memory="1kB",
    )
    lines = str(many).splitlines()
    assert len(lines) == 5
    assert lines[1].startswith("full") and lines[1].endswith("no")
    assert len(many) == 3 and many[1].name == "sampled"
    kinds = report.table([{"a": "x", "kind": "y", "n": "1"}])
    assert kinds == ["a  kind  n", "x  y     1"]


def test_parts_that_are_alike_share_a_row():
    found = estimate("transformer:9x32:2", num_classes=50, length=4)
    lines = str(found).splitlines()
    assert len(lines) < 20 < len(found.parts)
    (line,) = [x for x in lines if x.startswith("attention_1 (x 9)")]
    one = next(p for p in found.parts if p.name == "attention_1")
    assert f"{9 * one.parameters:,}" in line
    few = estimate("transformer:2x32:2", num_classes=50, length=4)
    assert "attention_2 " in str(few)


def test_dicts_are_for_json():
    found = estimate("gru:16", num_classes=50, length=5, replicas=2)
    values = json.loads(json.dumps(found.to_dict()))
    assert values["parameters"] == found.parameters
    assert values["replicas"] == 2
    assert len(values["parts"]) == len(found.parts)
    assert sum(
        part["milliseconds"]["forward"] for part in values["parts"]
    ) == pytest.approx(1000 * sum(s[0] for s in found.seconds))
    several = estimate(None, ["full", "sampled"], num_classes=9, width=2)
    assert len(json.loads(json.dumps(several.to_dict()))["estimates"]) == 2


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    found = estimate("lstm:2x16", num_classes=100, length=5)
    found.plot(tmp_path / "one.svg")
    text = (tmp_path / "one.svg").read_text()
    assert "lstm_2" in text and "roofline" in text
    many = estimate(None, ["full", "sampled"], num_classes=50, width=4)
    many.plot(tmp_path / "many.svg")
    assert "sampled" in (tmp_path / "many.svg").read_text()
    large = estimate("transformer:9x32:2", length=4)
    large.plot(tmp_path / "large.png")
    wide = estimate(
        "lstm:64",
        ["full", "adaptive", "hierarchical"],
        num_classes=1_000_000,
        batch=64,
        memory="24GB",
    )
    for drawn in (found, many, large, wide):
        pictures.check(drawn.plot())
    with pytest.raises(ValueError, match="xyz"):
        found.plot(tmp_path / "one.xyz")
