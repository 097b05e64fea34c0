r"""Kills workers of `//examples/distributed:workers`.

    bazel run //examples/distributed:kill_workers -- --kills=20

Starts workers on this machine, sends SIGKILL to one of them at a random moment,
starts all of them again, and so on. The moments are in a step, in a save or in
a restore. Each time all other workers must end with a sentence that names the
killed worker, and the restart must continue from the last checkpoint. The
status is 1 if one of them does not.
"""

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
from examples.distributed import workers as command

flags = program.Flags()

_KILLS = flags.define_count("kills", 20, "Kills in each kind of moment.")
_WHEN = flags.DEFINE_list(
    "when", ["steps", "saves", "restores"], "The moments of the kills."
)
_WORKERS = flags.define_count("workers", 3, "Workers on this machine.")
_WITHIN = flags.DEFINE_float(
    "within", 15, "Seconds after which all others must have ended."
)
_SEED = flags.DEFINE_integer("seed", 1, "Seed of the moments.", lower_bound=0)

_SAVE_EVERY = 40
_SIZES = "--classes=2000", "--width=8", "--batch_size=32"


class Workers:
    """All workers of a run, as processes.

    Attributes:
        processes: the `watched.Process` of each worker.
    """

    def __init__(self, count, folder):
        """Starts so many workers, whose checkpoints are in a folder."""
        self.processes = [
            watched.Process(
                [
                    *(sys.executable, "-m", "examples.distributed.workers"),
                    *(*_SIZES, f"--checkpoints={folder}"),
                    *("--steps=1000000", f"--save_every={_SAVE_EVERY}"),
                ],
                folder.parent,
                {"TF_CONFIG": config},
            )
            for config in command.configs(count)
        ]

    def wait_for(self, text):
        """Waits for a line of each worker."""
        for process in self.processes:
            process.wait_for(text)

    def kill(self, index):
        """Kills a worker.

        Returns:
            The seconds until the last other worker has ended.

        Raises:
            AssertionError: a worker does not end with a sentence that names the
                killed worker.
        """
        begin = time.monotonic()
        os.kill(self.processes[index].pid, signal.SIGKILL)
        others = [p for i, p in enumerate(self.processes) if i != index]
        for process in others:
            status = process.end()
            named = re.search(
                rf"^error: worker {index} at \S+ (has ended|does not answer)",
                process.printed(),
                re.MULTILINE,
            )
            if status != 1 or not named:
                raise AssertionError(
                    f"status {status} after a kill of worker {index}:\n"
                    f"{process.printed()}"
                )
        seconds = time.monotonic() - begin
        self.processes[index].end()
        return seconds

    def end(self):
        """Kills all workers that have not ended."""
        for process in self.processes:
            process.end(signal.SIGKILL)


def steps(workers, folder, victim, rng):
    """Kills a worker in a step; returns the seconds, and whether it was one."""
    del folder
    first = workers.processes[0]
    first.wait_for("step ", len(first.lines))
    time.sleep(rng.uniform(0, 0.3))
    return workers.kill(victim), True


def saves(workers, folder, victim, rng):
    """Kills a worker in a save; returns the seconds, and whether it was one."""
    workers.processes[0].wait_for("step ")
    before = watched.wait_for_a_save(folder)
    time.sleep(rng.uniform(0, 0.03))
    seconds = workers.kill(victim)
    return seconds, watched.last_checkpoint(folder) == before


def restores(workers, folder, victim, rng):
    """Kills a worker in a restore; returns seconds, and whether it was one."""
    del folder
    process = workers.processes[victim]
    process.wait_for("worker . restores")
    time.sleep(rng.uniform(0, 0.1))
    seconds = workers.kill(victim)
    return seconds, "begins after" not in process.printed()


def run(kill, folder, count, kills, rng, within):
    """Kills one worker after another, and starts all of them again.

    Args:
        kill: `steps`, `saves` or `restores`.
        folder: of the checkpoints.
        count: the number of workers.
        kills: the number of kills.
        rng: a `random.Random`, which draws the moments.
        within: the seconds within which all other workers must end.

    Returns:
        A text with the numbers.

    Raises:
        AssertionError: a worker did not end as the module's docstring says, or
            a restart did not continue from the last checkpoint.
    """
    folder.mkdir()
    workers, times, hits = Workers(count, folder), [], 0
    try:
        workers.processes[0].wait_for("step ")
        if kill is restores:
            workers.end()
            workers = Workers(count, folder)
        for i in range(kills):
            seconds, is_hit = kill(workers, folder, i % count, rng)
            times.append(seconds)
            hits += is_hit
            saved = _last_step(folder)
            workers = Workers(count, folder)
            if kill is not restores:
                workers.wait_for(f"worker . begins after step {saved}$")
        workers.wait_for(f"worker . begins after step {_last_step(folder)}$")
        workers.processes[0].wait_for("step ")
    finally:
        workers.end()
    if max(times) > within:
        raise AssertionError(f"the others ended after {max(times):.1f} s")
    times.sort()
    return (
        f"{hits} of them in the middle; the others ended after "
        f"{times[len(times) // 2]:.1f} s (median), {times[-1]:.1f} s (longest)"
    )


def _last_step(folder):
    """The step of the last checkpoint."""
    found = re.search(r'"(\d+)"', watched.last_checkpoint(folder))
    return int(found[1])


def main():
    """Kills workers at the moments that the flags name."""
    kinds = {"steps": steps, "saves": saves, "restores": restores}
    for when in _WHEN.value:
        if when not in kinds:
            sys.exit(f"error: --when={when}: must be of {', '.join(kinds)}.")
    for when in _WHEN.value:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name) / "checkpoints"
            rng = random.Random(_SEED.value)
            try:
                came = run(
                    kinds[when],
                    folder,
                    _WORKERS.value,
                    _KILLS.value,
                    rng,
                    _WITHIN.value,
                )
            except AssertionError as error:
                sys.exit(f"error: {when}: {error}")
        print(f"{when}: {_KILLS.value} workers killed, {came}", flush=True)


if __name__ == "__main__":
    program.run(main, flags, tensorflow=False)
