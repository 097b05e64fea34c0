"""What the estimate's formulas are measured by, on small tables and models."""

import os

import numpy as np
import pytest

from benchmarks.common import machine
from benchmarks.estimate import (
    bodies,
    largest,
    main,
    optimizers,
    process,
    replicas,
    slopes,
)
from tests.support import forked
from tests.support.benchmarks import assert_flag_is_refused, measure_here
from tf_hsm.estimation import machine_rates, machine_times

SETTINGS = main.Settings((), threads=2, repetitions=2, calibrates=False)
MEMORY = 720e6  # all but 20 MB of it is for the process


class Figures:
    """A `command.Figures` that keeps its entries."""

    def __init__(self):
        self.entries = []

    def add(self, kind, entry):
        self.entries.append(entry)


@pytest.fixture
def here(monkeypatch):
    measure_here(monkeypatch)
    monkeypatch.setattr(machine_times, "_NEW_BYTES", 1 << 20)


@pytest.fixture
def alone(monkeypatch):
    """Processes that measure the machine's rates only roughly.

    All are as those of `process.alone`: without oneDNN, which TensorFlow is
    asked for as it is imported.
    """
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setattr(
        machine, "run_alone", lambda *args: forked.run(roughly, *args)
    )


def roughly(function, *args):
    """Calls a function after it has made all that is measured small."""
    machine_rates.STREAM_BYTES = machine_times._NEW_BYTES = 1 << 20
    machine_rates.MATRIX_SIZE = 64
    return function(*args)


def test_what_is_measured_must_be_known():
    assert_flag_is_refused(main, "--what=heads", "must be of models, optim")


def test_the_peak_of_a_function():
    """Pages that are written count, and no more."""
    peak, result = process.peak_of(lambda: np.ones(100 << 20, np.uint8).sum())
    assert result == 100 << 20
    assert peak.beyond == pytest.approx(100 << 20, rel=0.2)
    assert peak.total == peak.before + peak.beyond


def test_a_process_of_its_own():
    name = "TF_ENABLE_ONEDNN_OPTS"
    before = os.environ.get(name)
    assert process.alone(os.getenv, name) == "0"
    assert process.alone_with_onednn(os.getenv, name) == before
    assert process.alone(os._exit, 9) is None
    assert os.environ.get(name) == before


def test_optimizers_take_the_tables_that_are_estimated(alone):
    """A table must be so large that malloc gives it back, beyond 32 MiB.

    How far two temporary tables overlap in time is the threads' affair.
    """
    sizes = optimizers.Sizes(rows=300_000, width=30, touched=10)
    found = process.alone(optimizers.measure, "Adam", sizes, 2, 4)
    for kind in ("dense", "sparse"):
        tables = found[kind]["tables"]
        assert tables["estimated"] == 2
        assert tables["measured"] == pytest.approx(2, abs=0.5)
        assert min(found[kind]["passes"].values()) > 0


def test_the_table_of_optimizers(here, capsys, monkeypatch):
    lazy_adam = {"LazyAdam": optimizers.OPTIMIZERS["LazyAdam"]}
    monkeypatch.setattr(optimizers, "OPTIMIZERS", lazy_adam)
    figures = Figures()
    optimizers.run(figures, SETTINGS, optimizers.Sizes(999, 3, 10))
    output = capsys.readouterr().out
    assert "999 x 3 float32; a sparse gradient has 10 rows" in output
    assert [e["gradient"] for e in figures.entries] == ["dense", "sparse"]
    estimated = [e["malloc"]["tables"]["estimated"] for e in figures.entries]
    assert estimated == [2, 0]
    for entry in figures.entries:
        assert f"\n{optimizers.line(entry)}\n" in output


def test_slopes(here, capsys, monkeypatch):
    case = slopes.Case(bodies.cells("GRU", [6]), 6, 4, (3, 50))
    monkeypatch.setattr(slopes, "CASES", {"gru:6": case})
    monkeypatch.setattr(slopes, "_PROCESSES", 1)
    figures = Figures()
    slopes.run(figures, SETTINGS)
    (entry,) = figures.entries
    assert [len(peaks) for peaks in entry["peaks"]] == [1, 1]
    # What a layer and a Dense layer of 1 keep, and a gradient of outputs.
    assert 13 < entry["slopes"]["estimated"] < 17
    assert f"\n{slopes.line(entry)}\n" in capsys.readouterr().out


def test_a_slope_is_that_of_the_medians():
    case = slopes.Case(None, 8, 5, (1, 2, 4))
    unit = 4 * 8 * 5
    peaks = [
        [
            {"measured": 100 + 7 * unit * batch + more, "estimated": 9 * batch}
            for more in (-50, 0, 10 * unit)
        ]
        for batch in case.batches
    ]
    entry = slopes.slopes(case, peaks)
    assert entry["measured"] == [100 + 7 * unit * b for b in case.batches]
    assert entry["slopes"]["measured"] == pytest.approx(7)
    assert entry["slopes"]["estimated"] == pytest.approx(9 / unit)


def test_largest(here, capsys, monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: 1e9)
    sizes = largest.Sizes(6, 50, 4, (MEMORY, 1e9))
    figures = Figures()
    largest.run(figures, SETTINGS, sizes)
    first, second = figures.entries
    batch, more = first["batches"]
    assert more == pytest.approx(1.1 * batch, abs=1)
    assert len(first["peaks"]) == 2
    assert "refused: not so much memory" in capsys.readouterr().out
    assert "refused" in second
    killed = largest.line({**first, "peaks": [MEMORY, None]})
    assert killed.split() == [
        "720",
        "MB",
        str(batch),
        "720",
        "MB",
        str(more),
        "killed",
    ]


def test_replicas_share_the_work_and_the_machine(alone, capsys):
    figures = Figures()
    sizes = replicas.Sizes(batch=6, length=3, units=4, classes=50)
    replicas.run(figures, SETTINGS, sizes)
    output = capsys.readouterr().out
    one, two = figures.entries
    assert (one["devices"], two["devices"]) == (1, 2)
    # The operations are as many, but for updates of both copies.
    assert one["flops"] < two["flops"] < 1.5 * one["flops"]
    for entry in (one, two):
        assert min(entry["ms"], entry["cpu_ms"], entry["estimated_ms"]) > 0
        assert f"\n{replicas.line(entry)}\n" in output
