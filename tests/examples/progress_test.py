"""The line that says how far a long piece of work is."""

import io

import pytest

from examples.common import progress


@pytest.fixture
def clock(monkeypatch):
    """A list whose number is the time."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


class Terminal(io.StringIO):
    """A file on which lines are written over."""

    def isatty(self):
        return True


def test_lines_in_a_file(clock):
    file = io.StringIO()
    shown = progress.Progress("", 24_000, "words", file)
    shown.title = "epoch 1/3, loss 7.500"
    clock[0] += 5
    shown.add(1000, 1000)
    assert file.getvalue() == ""
    clock[0] += 15
    shown.add(5000, 5000)
    line = "epoch 1/3, loss 7.500: 25%; 6,000 words, 300/s; 1 min 0 s left\n"
    assert file.getvalue() == line
    clock[0] += 5
    shown.add(0)
    assert file.getvalue() == line
    shown.end()
    assert file.getvalue().splitlines()[1].endswith("240/s; 1 min 15 s left")


def test_a_line_of_a_terminal(clock):
    file = Terminal()
    shown = progress.Progress("Counting", None, "tokens", file)
    clock[0] += 2
    shown.add(1, 10_000)
    first = "\rCounting: 10,000 tokens, 5,000/s; 2 s"
    assert file.getvalue() == first
    clock[0] += 0.1
    shown.add(1, 1)
    assert file.getvalue() == first
    clock[0] += 0.9
    shown.end()
    assert file.getvalue() == (
        f"{first}\rCounting: 10,001 tokens, 3,334/s; 3 s\n"
    )


def test_what_takes_a_second_has_no_line(clock):
    file = io.StringIO()
    shown = progress.Progress("Reading", 2, file=file)
    clock[0] += 1
    shown.add(2)
    shown.end()
    assert file.getvalue() == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (59.4, "59 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (7261, "2 h 1 min"),
    ],
)
def test_duration(seconds, text):
    assert progress.duration(seconds) == text
