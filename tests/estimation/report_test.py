"""What an estimate is shown as: tables and dicts."""

import json

import pytest

import tf_hsm
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
    found = estimate("lstm:8", length=3, optimizer="ftrl")
    assert "Ftrl" in found.uncounted[0]
    assert "not counted: lstm" in str(found)
    several = estimate(None, ["full", "sampled"], num_classes=9, width=2)
    assert len(json.loads(json.dumps(several.to_dict()))["estimates"]) == 2


def test_what_an_optimizer_takes():
    """Where others need less, and nowhere else."""
    options = {"num_classes": "1M", "width": 64, "memory": "16GB"}
    adam = estimate(None, optimizer="adam", **options)
    lazy, in_place = (other for _, other in adam.alternatives)
    assert lazy.milliseconds < in_place.milliseconds + lazy.milliseconds
    assert 10 * lazy.milliseconds < adam.milliseconds
    assert lazy.slot_bytes == adam.slot_bytes > 10 * in_place.slot_bytes
    takes, with_lazy, with_both = str(adam).splitlines()[-3:]
    assert "  adam takes " in takes and " of temporary tables" in takes
    assert "with optimizer=lazy_adam: " in with_lazy
    assert " and head_optimizer=rowwise_adagrad: " in with_both
    assert with_both.endswith(", which fits")
    assert "lazy_adam takes" in str(estimate(None, **options))
    wanted = estimate(None, head_optimizer="rowwise_adagrad", **options)
    assert in_place.peak_bytes == wanted.peak_bytes
    assert in_place.milliseconds == wanted.milliseconds
    assert not wanted.alternatives and " takes " not in str(wanted)
    found = adam.to_dict()["alternatives"]
    assert [x["peak_bytes"] for x in found] == [
        lazy.peak_bytes,
        in_place.peak_bytes,
    ]
    # A dense model, and no training.
    for other in (
        estimate("lstm:8", length=3, optimizer="adam"),
        estimate(None, optimizer=None, **options),
    ):
        assert not other.alternatives
    several = estimate(
        None, ["full", "hierarchical"], optimizer="adam", **options
    )
    assert "hierarchical: adam takes" in str(several)


@pytest.mark.parametrize(
    "head",
    [
        tf_hsm.layers.EmbeddingSoftmax(
            tf_hsm.Tree.two_level(50_000), num_embeddings=50_000, width=32
        ),
        tf_hsm.layers.LabelTree(tf_hsm.Tree.two_level(50_000)),
        tf_hsm.layers.AdaptiveSoftmax(50_000, cutoffs=[2000]),
    ],
)
def test_every_head_has_its_alternatives(head):
    found = estimate(None, head, width=32, optimizer="adam").alternatives
    assert [text for text, _ in found] == [
        "optimizer=lazy_adam",
        "optimizer=lazy_adam and head_optimizer=rowwise_adagrad",
    ]
