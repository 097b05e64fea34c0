"""Memory or disk that is missing, at some calls; the commands try all."""

import re

from tests.faults import allocations, disk


def test_allocations(capsys):
    """No allocation that fails ends the process or leaves half an update."""
    assert allocations.main(["--injections=400", "--cases=68"]) == 0
    output = capsys.readouterr().out
    made = int(re.match(r"([\d,]+) outcomes", output)[1].replace(",", ""))
    assert made >= 400
    assert "ResourceExhaustedError" in output and "done without" in output


def test_disk(capsys):
    """A save that fails leaves what was there, and nothing else."""
    # The other exports are written by the same code.
    writers = ["tree", "export", "checkpoint"]
    # An export takes long: 13 leaves two of its calls at least.
    arguments = "--every_of_export=13", "--writers"
    assert disk.main([*arguments, *writers]) == 0
    output = capsys.readouterr().out
    for writer in writers:
        calls, refused = (
            int(re.search(rf"(\d+) {writer}: {what}\n", output)[1])
            for what in ("calls", "refused")
        )
        assert refused >= 2 and calls > 0
        # It is written in two parts, by two libraries.
        assert writer != "checkpoint" or refused == 2 * calls
