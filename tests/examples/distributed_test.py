"""The example on several processes: training, going on, and kills."""

import contextlib
import os
import random
import re
import subprocess
import sys

from examples.distributed import kill, kill_workers
from tests.support.texts import write_sentences

TIMEOUT_S = 300
STEP = re.compile(
    r"step ([\d,]+) of ([\d,]+), ([\d,]+) applied: perplexity ([\d.]+)"
    r"(?:, held out ([\d.]+))?; [\d,]+ words/s"
)
EPOCH = 100  # batches of kill.Training in the text of the test
# As those of kill.Training.
MODEL = "--batch_size=8", "--steps=8", "--units=128"


def test_replicas(tmp_path):
    """It goes on from its file on another number of replicas."""
    losses = []
    for cpus in (2, 4):
        printed = subprocess.run(
            [
                *(sys.executable, "-m", "examples.distributed.replicas"),
                *(f"--cpus={cpus}", "--classes=100", "--width=8"),
                *("--batch_size=32", "--steps=20"),
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        ).stdout
        assert f"over {cpus} replicas" in printed
        losses.append(float(re.search(r"loss: ([\d.]+)", printed)[1]))
    assert losses[1] < losses[0]


def test_workers(tmp_path):
    """It goes on from its checkpoint on another number of workers."""
    losses = []
    for count, last_step in ((2, 40), (1, 80)):
        printed = subprocess.run(
            [
                *(sys.executable, "-m", "examples.distributed.workers"),
                *(f"--workers={count}", "--classes=100", "--width=8"),
                *("--steps=40", "--save_every=40"),
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        ).stdout
        assert f"step {last_step} on {count} devices" in printed
        losses.append(float(re.search(r"loss: ([\d.]+)", printed)[1]))
    assert losses[1] < losses[0]


def test_a_killed_worker(tmp_path):
    """In a save: the other one names it, and a restart continues."""
    came = kill_workers.run(
        kill_workers.saves, tmp_path / "saved", 2, 1, random.Random(0), 60
    )
    assert "the others ended after" in came


def train(folder, *flags):
    """Runs the command; returns its lines, and the steps that they tell of."""
    printed = folder / "printed.txt"
    with printed.open("w") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "examples.distributed.train"),
                *(f"--corpus={folder / 'text.txt'}", "--save_every=50"),
                *("--checkpoints=checkpoints", *flags),
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
    return lines, steps_of(lines)


def steps_of(lines):
    """The numbers of lines that tell of steps; None is what a line lacks."""
    return [
        [number and float(number.replace(",", "")) for number in step.groups()]
        for step in map(STEP.fullmatch, lines)
        if step
    ]


@contextlib.contextmanager
def one_core():
    """Processes that start in the block have one."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


# `bazel run //examples/distributed:kill` also kills processes during a save.
def test_it_goes_on_after_kills(tmp_path):
    write_sentences(tmp_path, num_lines=740)
    rng, training = random.Random(0), kill.Training(tmp_path)
    again, came = kill.kill_servers(training, tmp_path, 1, rng)
    assert "went on from the last checkpoint" in came
    assert "no error" in kill.kill_trainers(again, 1, rng)
    first, *_ = steps_of(line for _, line in training.lines)
    # Else checkpoints were not so far apart as `kill` takes them to be.
    assert first[1] == 1e6 * EPOCH
    # On one server: the checkpoint is that of any number of them.
    saved = again.last(re.compile(r"saved step ([\d,]+)"))[1]
    saved = int(saved.replace(",", ""))
    epochs = saved // EPOCH + 2
    fewer = "--servers=1", "--trainers=1"
    with one_core():
        lines, steps = train(tmp_path, *MODEL, *fewer, f"--epochs={epochs}")
    # The last save may have ended, and not been said to have.
    assert any(
        f"going on from step {step:,}" in lines for step in (saved, saved + 50)
    )
    last = steps[-1]
    assert last[0] == last[1] == epochs * EPOCH
    # Without a kill each step is applied once.
    assert len({applied - given for given, _, applied, *_ in steps}) == 1
    assert steps[0][3] < first[3] / 3 and last[4] < first[3] / 3
    assert sum(" ends: SIGTERM" in line for line in lines) == 2
