r"""Kills trainers, servers and saves of `//examples/distributed:train`.

    bazel run //examples/distributed:kill -- --kills=20

Trains on a text of its own, sends SIGKILL again and again, and says what came
of it. The status is 1 if that is not what the README promises:

  trainers  training goes on without an error, and no more steps are applied
            twice than trainers were killed
  servers   a sentence within five seconds; the same command goes on from the
            last checkpoint
  saves     of the process that trains, or of a server, during a save: the
            earlier checkpoint is whole, and the same command goes on from it
"""

import functools
import math
import os
import pathlib
import random
import re
import signal
import sys
import tempfile
import time

from examples.common import program
from examples.distributed import watched

flags = program.Flags()

_KILLS = flags.define_count("kills", 20, "How often each is killed.")
_WHAT = flags.DEFINE_list(
    "what", ["trainers", "servers", "saves"], "What is killed."
)
_SEED = flags.DEFINE_integer("seed", 1, "Seed of the moments.", lower_bound=0)

_SENTENCE_S = 5
_WORDS = 3000
_SAVE_EVERY = 50
_PROCESS = re.compile(r"(ps|worker) task (\d+) at \S+: process (\d+),")
_STEP = re.compile(r"step ([\d,]+) of [\d,]+, ([\d,]+) applied:")


class Training(watched.Process):
    """The command in a process of its own."""

    def __init__(self, folder):
        """Starts it, with its text and its checkpoints in a folder."""
        super().__init__(
            [
                *(sys.executable, "-m", "examples.distributed.train"),
                f"--corpus={folder / 'text.txt'}",
                f"--checkpoints={folder / 'checkpoints'}",
                *("--batch_size=8", "--steps=8", "--units=128", "--held_out=0"),
                *("--epochs=1000000", f"--save_every={_SAVE_EVERY}"),
            ],
            folder,
        )

    @property
    def pids(self):
        """A dict from (job, index) to the last process of each task."""
        found = [_PROCESS.match(line) for _, line in self.lines]
        return {(f[1], int(f[2])): int(f[3]) for f in found if f}


def _kill(pid):
    os.kill(pid, signal.SIGKILL)


def trainers(folder, kills, rng):
    """Kills one trainer after the other; returns what came of it."""
    return kill_trainers(Training(folder), kills, rng)


def kill_trainers(training, kills, rng):
    """Kills trainers of a `Training`, and ends it; returns what came of it."""
    for i in range(kills):
        training.wait_for("saved step", len(training.lines))
        time.sleep(rng.uniform(0, 0.5))
        known = len(training.lines)
        _kill(training.pids["worker", i % 2])
        training.wait_for(f"worker task {i % 2} at", known)
    training.wait_for("saved step", len(training.lines))
    given, applied = _steps(training)
    # Lines of this command alone: TensorFlow's log is hidden. Its coordinator
    # may print a traceback of its own when the servers end after the signal.
    printed = training.printed()
    status = training.end(signal.SIGINT)
    if status != 130 or re.search("error|Traceback", printed, re.I):
        raise AssertionError(training.printed())
    if not 0 <= applied - given <= kills:
        raise AssertionError(f"{given} steps were given, {applied} applied")
    return f"{given:,} steps, {applied - given} of them applied twice, no error"


def servers(folder, kills, rng, within=math.inf):
    """Kills a server, starts all again, and so on; returns what came of it.

    The sentence must come within so many seconds of each kill.
    """
    training, came = kill_servers(Training(folder), folder, kills, rng, within)
    training.end(signal.SIGINT)
    return came


def kill_servers(training, folder, kills, rng, within=math.inf):
    """As `servers`, from a `Training` on; returns the last one too, running."""
    seconds = []
    for i in range(kills):
        training.wait_for("saved step", len(training.lines))
        time.sleep(rng.uniform(0, 0.5))
        task = "ps", i % 2
        begin = time.monotonic()
        _kill(training.pids[task])
        moment, _ = training.wait_for(f"error: ps task {i % 2} at .* restore")
        seconds.append(moment - begin)
        if training.end() != 1:
            raise AssertionError(training.printed())
        training = _again(folder, training)
    if max(seconds) > within:
        raise AssertionError(f"a sentence took {max(seconds):.1f} s")
    return training, (
        f"a sentence after {max(seconds):.2f} s at most; every start went on "
        f"from the last checkpoint, one for each {_SAVE_EVERY} steps"
    )


def saves(folder, kills, rng):
    """Kills during saves, starts all again; returns what came of it."""
    training, within = Training(folder), 0
    for i in range(kills):
        training.wait_for("saved step", len(training.lines))
        before = watched.wait_for_a_save(folder / "checkpoints")
        time.sleep(rng.uniform(0, 0.02))
        victims = [training.pid, *(training.pids["ps", j] for j in range(2))]
        _kill(victims[i % 3])
        training.end()
        # Or else the save was over, and made the new checkpoint the last one.
        within += watched.last_checkpoint(folder / "checkpoints") == before
        training = _again(folder, training)
    training.end(signal.SIGINT)
    return f"{within} in the middle of a save; every start went on"


def _steps(training):
    """Those that were given to trainers, and those that were applied."""
    return [
        int(number.replace(",", "")) for number in training.last(_STEP).groups()
    ]


def _again(folder, earlier):
    """Starts the command; checks that it goes on from the last checkpoint.

    Returns:
        The new `Training`.
    """
    saved = earlier.last(re.compile(r"saved step ([\d,]+)"))[1]
    saved = int(saved.replace(",", ""))
    training = Training(folder)
    line = training.wait_for("going on from step")[1]
    begin = int(re.search(r"[\d,]+$", line)[0].replace(",", ""))
    # The last save may have ended, and not been said to have.
    if begin not in (saved, saved + _SAVE_EVERY):
        raise AssertionError(f"saved step {saved}, but {line}")
    return training


def write_text(path):
    """Sentences, many of whose words are rare."""
    rng = random.Random(0)
    lines = []
    for _ in range(6 * _WORDS):
        k = rng.randrange(_WORDS)
        lines.append(f"the noun{k} sees a noun{k // 2} and verb{k}s .")
    path.write_text("\n".join(lines))


def main():
    """Kills what the flags say; ends with status 1 if a promise is broken."""
    kinds = {
        "trainers": trainers,
        "servers": functools.partial(servers, within=_SENTENCE_S),
        "saves": saves,
    }
    for what in _WHAT.value:
        if what not in kinds:
            sys.exit(f"error: --what={what}: must be of {', '.join(kinds)}.")
    for what in _WHAT.value:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_text(folder / "text.txt")
            rng = random.Random(_SEED.value)
            try:
                came = kinds[what](folder, _KILLS.value, rng)
            except AssertionError as error:
                sys.exit(f"error: {what}: {error}")
        print(f"{what}: {_KILLS.value} killed; {came}", flush=True)


if __name__ == "__main__":
    program.run(main, flags)
