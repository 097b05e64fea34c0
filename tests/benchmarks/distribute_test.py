"""The benchmark of a head on devices, servers and workers: a small head."""

import numpy as np
import pytest

from benchmarks.common import machine
from benchmarks.distribute import steps
from tests.support import forked
from tests.support.benchmarks import figures_of
from tf_hsm import Tree, distribute


def test_figures(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "run_alone", forked.run)
    report = figures_of(
        "distribute",
        tmp_path,
        "--classes=2000",
        "--width=16",
        "--batch=64",
        "--repetitions=3",
        "--labels=uniform,one_shard",
        "--devices=1",
        "--devices=3",
        "--servers=1",
        "--workers=2",
    )
    assert [e["labels"] for e in report["devices"]] == ["uniform", "one_shard"]
    for entry in report["devices"]:
        times = entry["times"]
        assert set(times) == {"one", "top", "1", "3"}
        assert times["one"]["x_one"] == 1
        assert all(len(t["samples_ms"]) == 3 for t in times.values())
        assert times["1"]["fullest"] == 1
    uniform, one_shard = (e["times"]["3"] for e in report["devices"])
    assert 1 / 3 < uniform["fullest"] < 0.6
    assert one_shard["fullest"] == 1
    assert [e["replicas"] for e in report["plans"]] == [1, 3] * 2
    assert report["plans"][-1]["waiting"] == pytest.approx(2 / 3)
    for entry, classes in zip(report["servers"], (200, 2000), strict=True):
        assert (entry["classes"], entry["servers"]) == (classes, 1)
        result = entry["on_servers"]
        assert result["bound"] == 64 * (2 * 4 * 16 + 12)
        if not entry["shared_network"]:
            # Headers of calls are a good part of such small messages.
            assert 1 < result["bytes_x_bound"] < 4
            # With one variable, nothing travels but signs of life.
            assert entry["one"]["bytes"] < result["bytes"] / 2
    assert [e["labels"] for e in report["workers"]] == ["uniform", "one_shard"]
    # Half of the examples travel, and two gradients of the top: of 45 rows of
    # 16 numbers, a bias, and a number that says whether it is touched.
    planned = 32 * (2 * 4 * 16 + 12 + 4) + 2 * 45 * 18 * 4
    for entry in report["workers"]:
        assert entry["workers"] == 2
        assert entry["planned_bytes"] == pytest.approx(planned, rel=0.1)
        if not entry["shared_network"]:
            assert 1 < entry["bytes"] / entry["planned_bytes"] < 4


def test_labels_of_the_next_shard():
    """Each part of a batch has labels of the shard of the next part."""
    plan = distribute.plan(Tree.two_level(400), replicas=4)
    labels = steps.draw_labels("shard_of_next", plan, 5, 12)
    wanted = [[1, 1, 1, 2, 2, 2, 3, 3, 3, 0, 0, 0]] * 5
    np.testing.assert_array_equal(steps.shards_of(plan, labels), wanted)
