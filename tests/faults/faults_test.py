"""Memory or disk that is missing, at some calls; the commands try all."""

import re

from tests.faults import allocations, disk


def test_allocations(capsys):
    """No allocation that fails ends the process or leaves half an update."""
    assert allocations.main(["--injections=400", "--cases=68"]) == 0
    output = capsys.readouterr().out
    made = int(re.match(r"([\d,]+) injections", output)[1].replace(",", ""))
    assert made >= 400
    assert "ResourceExhaustedError" in output and "done without" in output


def calls_and_refused(output):
    """The numbers of calls that write, and of those whose failing is told."""
    calls = re.findall(r"(\d+) \w+: calls", output)
    return list(map(int, calls)), int(re.search(r"(\d+) refused", output)[1])


def test_disk(capsys):
    """A save that fails leaves what was there, and nothing else."""
    # The other exports are written by the same code, and take longer.
    writers = ["tree", "export", "word_vectors"]
    # Of each writer two calls at least; together they meet all errors.
    arguments = "--every=13", "--alternate", "--writers"
    assert disk.main([*arguments, *writers]) == 0
    calls, refused = calls_and_refused(capsys.readouterr().out)
    assert len(calls) == len(writers) and refused >= 2 * len(writers)


def test_disk_at_each_call(capsys):
    """This one is written in two parts, by two libraries."""
    assert disk.main(["--writers", "checkpoint"]) == 0
    (calls,), refused = calls_and_refused(capsys.readouterr().out)
    assert refused == 2 * calls > 0
