"""The lines that say how far a long piece of work is."""

import pytest

from examples.common import progress


@pytest.fixture
def clock(monkeypatch):
    """A list whose number is the time."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_line_every_ten_seconds(clock, capsys):
    shown = progress.Progress("", 24_000, "words")
    shown.title = "epoch 1/3, loss 7.500"
    clock[0] += 5
    shown.add(1000, 1000)
    assert capsys.readouterr().out == ""
    clock[0] += 15
    shown.add(5000, 5000)
    line = "epoch 1/3, loss 7.500: 25%; 6,000 words, 300/s; 60 s left\n"
    assert capsys.readouterr().out == line
    clock[0] += 5
    shown.add(1, 1)
    assert capsys.readouterr().out == ""


def test_without_a_total(clock, capsys):
    shown = progress.Progress("Reading", None, "tokens")
    clock[0] += 10
    shown.add(0, 50_000)
    assert capsys.readouterr().out == "Reading: 50,000 tokens, 5,000/s\n"
