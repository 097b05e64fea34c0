"""The benchmark of a head on devices and servers, on a small head."""

import contextlib
import io
import json

import pytest

from benchmarks.common import machine
from tests.support import forked
from tests.support.benchmarks import run_main


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """The output and the figures of the command."""
    path = tmp_path_factory.mktemp("figures") / "figures.json"
    output = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(output),
    ):
        patch.setattr(machine, "run_alone", forked.run)
        run_main(
            "distribute",
            "--classes=2000",
            "--width=16",
            "--batch=64",
            "--repetitions=3",
            "--labels=uniform,one_shard",
            "--devices=1",
            "--devices=3",
            "--servers=1",
            f"--json={path}",
        )
    return output.getvalue(), json.loads(path.read_text())


def test_devices(figures):
    output, report = figures
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
    assert "\n3 devices " in output and "\nthe top alone " in output


def test_plans(figures):
    output, report = figures
    assert [e["replicas"] for e in report["plans"]] == [1, 3] * 2
    *_, last = report["plans"]
    assert last["waiting"] == pytest.approx(2 / 3)
    assert "replicas: 3, labels: all on one device: " in output


def test_bytes_on_the_wire_are_those_of_the_bound_and_little_more(figures):
    """Headers of calls are a good part of such small messages."""
    output, report = figures
    for entry, classes in zip(report["servers"], (200, 2000), strict=True):
        assert (entry["classes"], entry["servers"]) == (classes, 1)
        result = entry["on_servers"]
        assert result["bound"] == 64 * (2 * 4 * 16 + 12)
        if not entry["shared_network"]:
            assert 1 < result["bytes_x_bound"] < 4
            # With one variable, nothing travels but signs of life.
            assert entry["one"]["bytes"] < result["bytes"] / 2
    assert "servers: 1, classes: 2,000: " in output
