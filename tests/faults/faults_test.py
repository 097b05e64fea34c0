"""Memory or disk that is missing, at some calls; the commands try all."""

import re

from tests.faults import allocations, disk

OTHER_EXPORTS = ("export", "label_tree_export")


def test_allocations(capsys):
    """No allocation that fails ends the process or leaves half an update."""
    assert allocations.main(["--injections=400", "--cases=68"]) == 0
    output = capsys.readouterr().out
    made = int(re.match(r"([\d,]+) injections", output)[1].replace(",", ""))
    assert made >= 400
    assert "ResourceExhaustedError" in output and "done without" in output


def test_disk(capsys):
    """A save that fails leaves what was there, and nothing else."""
    # Of the exports, that of the most variables; all take half a minute.
    writers = [w for w in disk.WRITERS if w not in OTHER_EXPORTS]
    assert disk.main(["--every=9", "--writers", *writers]) == 0
    output = capsys.readouterr().out
    refused = int(re.search(r"(\d+) refused", output)[1])
    assert refused >= 2 * len(writers) == 8
    assert all(f"{writer}: calls" in output for writer in writers)
