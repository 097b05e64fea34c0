"""The example on several processes: training, going on, and kills."""

import os
import pathlib
import random
import re
import subprocess
import sys

import pytest

from examples.distributed import kill
from tests.support.texts import write_sentences

TIMEOUT_S = 300
STEP = re.compile(
    r"step (\d+) of (\d+), (\d+) applied: perplexity ([\d.]+), "
    r"held out ([\d.]+); [\d,]+ words/s"
)


def train(folder, *flags):
    """Runs the command; returns its lines, and the matches of STEP."""
    printed = folder / "printed.txt"
    with printed.open("w") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "examples.distributed.train"),
                *(f"--corpus={folder / 'text.txt'}", "--checkpoints=saved"),
                *("--batch_size=4", "--steps=8", "--units=16"),
                *("--save_every=50", "--branching=8", *flags),
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        status = process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        # Its servers end with it.
        process.kill()
        process.wait()
        status = f"none within {TIMEOUT_S} s"
    assert status == 0, f"status {status}:\n{printed.read_text()}"
    lines = printed.read_text().splitlines()
    return lines, [m for m in map(STEP.fullmatch, lines) if m]


@pytest.mark.parametrize("how", ["--trainers=2", "--synchronous"])
def test_it_learns_and_goes_on(tmp_path, how):
    write_sentences(tmp_path)
    lines, steps = train(tmp_path, how, "--servers=2", "--epochs=3")
    first, last = steps[0], steps[-1]
    # Without a kill each step is applied once.
    assert all(step[1] == step[3] for step in steps)
    assert last[1] == last[2] and len(steps) >= 3
    assert float(last[5]) < float(first[5]) / 4
    assert sum(" ends: SIGTERM" in line for line in lines) == (
        2 if how == "--synchronous" else 4
    )
    # On other servers: the checkpoint is that of any number of them.
    lines, steps = train(tmp_path, how, "--servers=1", "--epochs=4")
    assert f"going on from step {last[1]}" in lines
    assert int(steps[0][1]) > int(last[1]) and steps[0][1] == steps[0][3]
    assert float(steps[0][4]) < float(first[4]) / 4
    assert float(steps[-1][5]) < 1.1 * float(last[5])


def test_on_one_core(tmp_path):
    write_sentences(tmp_path)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        _, steps = train(tmp_path, "--trainers=2", "--servers=2")
    finally:
        os.sched_setaffinity(0, cores)
    assert steps[-1][1] == steps[-1][2]


# Of a save, `bazel run //examples/distributed:kill` does it.
@pytest.mark.parametrize("what", ["trainers", "servers"])
def test_a_kill(tmp_path, what):
    folder = pathlib.Path(tmp_path)
    kill.write_text(folder / "text.txt")
    came = getattr(kill, what)(folder, 1, random.Random(0))
    assert {
        "trainers": "no error",
        "servers": "went on from the last checkpoint",
    }[what] in came
