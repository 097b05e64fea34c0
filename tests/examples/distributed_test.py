"""The example on several processes: training, continuing, and kills."""

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.support import servers

TIMEOUT_S = 300
SIZES = "--classes=100", "--width=8"


def start(program, folder, *flags):
    """Starts a program of the example; returns the process."""
    return servers.start(
        *("-m", f"examples.distributed.{program}", *SIZES, *flags),
        environment={"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=folder,
        stderr=subprocess.STDOUT,
    )


def run(program, folder, *flags):
    """Runs a program of the example to its end; returns what it prints."""
    process = start(program, folder, *flags)
    try:
        printed, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, printed
    return printed


def losses_of(printed):
    """The losses that a program prints."""
    return [float(loss) for loss in re.findall(r"loss: ([\d.]+)", printed)]


@pytest.mark.parametrize(
    ("program", "counts", "flags"),
    [
        ("replicas", "--cpus", ("--batch_size=32", "--steps=20")),
        ("workers", "--workers", ("--steps=40", "--save_every=40")),
    ],
)
def test_it_continues_on_another_number_of_devices(
    program, counts, flags, tmp_path
):
    first = run(program, tmp_path, f"{counts}=2", *flags)
    again = run(program, tmp_path, f"{counts}=1", *flags)
    assert losses_of(again)[-1] < losses_of(first)[-1]
    if program == "workers":
        assert "step 40 on 2 devices" in first
        assert "step 80 on 1 devices" in again


def test_trainers_and_servers_are_killed(tmp_path):
    """A lost trainer is started again; a lost server is named at the end."""
    flags = "--batch_size=16", "--save_every=20"
    process, pids, printed = (
        start("train", tmp_path, *flags, "--trainers=1", "--steps=1000000"),
        {},
        [],
    )

    def read_until(pattern):
        for line in process.stdout:
            printed.append(line)
            if found := re.match(
                r"(ps|worker) task (\d) .*process (\d+)", line
            ):
                pids[found[1], int(found[2])] = int(found[3])
            if re.search(pattern, line):
                return line
        raise AssertionError("".join(printed))

    try:
        read_until("saved$")
        os.kill(pids["worker", 0], signal.SIGKILL)
        read_until("^worker task 0 .*process")
        read_until("saved$")
        last = read_until("saved$")
        os.kill(pids["ps", 1], signal.SIGKILL)
        line = read_until("^error: ")
        assert re.match("error: ps task 1 at .* restore", line)
        assert process.wait(TIMEOUT_S) == 1
    finally:
        process.kill()
        process.wait()
    # One server more or less reads the same checkpoint.
    more = "--servers=1", "--trainers=1", "--steps=40"
    again = run("train", tmp_path, *flags, *more)
    given = int(re.match(r"step (\d+)", last)[1])
    begin = int(re.search(r"^continues after step (\d+)", again, re.M)[1])
    # Another save may have ended before the kill.
    assert begin >= given
    assert f"step {begin + 40}, " in again
    assert losses_of(again)[-1] < losses_of("".join(printed))[0]
