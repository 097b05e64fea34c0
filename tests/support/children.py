"""Work in a child process, whose death is an answer and not the end."""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

# The environment variable with the name of the file that tells of progress.
_PROGRESS = "TF_HSM_TEST_PROGRESS"
_FORMAT = "qq"


@dataclasses.dataclass(frozen=True)
class Child:
    """What became of a process.

    Attributes:
        output: What it has printed, if it ended well; otherwise None.
        progress: The two numbers that it reported last.
        death: How it ended otherwise, in words, with its last lines.
    """

    output: str | None
    progress: tuple
    death: str = ""


class Progress:
    """Tells the parent where this process is, in a microsecond."""

    def __init__(self):
        path = os.environ.get(_PROGRESS, os.devnull)
        self._file = os.open(path, os.O_RDWR)

    def report(self, number, step=0):
        os.pwrite(self._file, struct.pack(_FORMAT, number, step), 0)


def parser(doc):
    """The arguments of a program that repeats calls in children.

    Args:
        doc: The docstring of the module.

    Returns:
        An `argparse.ArgumentParser` with `--seed` and `--child`.
    """
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawTextHelpFormatter
    )
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return made


def run(module, arguments, first, seconds=900, environment=None):
    """Runs `python -m module arguments`, which reports a Progress.

    Args:
        module: A module of the tests.
        arguments: A list of strings.
        first: The number that counts as reported before any is.
        seconds: Without progress, after which the process hangs and is ended.
        environment: More variables.

    Returns:
        A Child.
    """
    with tempfile.NamedTemporaryFile() as file:
        file.write(struct.pack(_FORMAT, first, 0))
        file.flush()

        def progress():
            size = struct.calcsize(_FORMAT)
            return struct.unpack(_FORMAT, os.pread(file.fileno(), size, 0))

        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=pathlib.Path(__file__).parents[2],
            env={**os.environ, _PROGRESS: file.name, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        last, since, hangs = None, time.monotonic(), False
        while True:
            try:
                output, errors = process.communicate(timeout=5)
                break
            except subprocess.TimeoutExpired:
                if progress() != last:
                    last, since = progress(), time.monotonic()
                elif time.monotonic() - since > seconds:
                    hangs = True
                    process.send_signal(signal.SIGABRT)
        if process.returncode == 0:
            return Child(output, progress())
        how = "hangs" if hangs else f"ended with {process.returncode}"
        return Child(None, progress(), f"{how}\n{errors[-3000:]}")


def survey(run_child, first, end, is_enough, what):
    """Goes through cases in children; one that dies is counted.

    Args:
        run_child: Takes the number of a case, and of the outcomes so far;
            returns a Child that has gone through cases from that on, and has
            printed as JSON a count per outcome, and of how many cases.
        first: The number of the first case.
        end: The number behind the last one.
        is_enough: Takes the counts so far.
        what: The name of the cases.

    Returns:
        The status that the process should exit with: 1 if a child died or an
        outcome begins with WRONG.
    """
    total, at, begin = collections.Counter(), first, time.monotonic()
    while at < end and not is_enough(total):
        child = run_child(at, total.total())
        if child.output is None:
            number, step = child.progress
            total[f"CRASH: --first={number}, step {step}"] += 1
            print(f"CRASH at {number}, {step}: {child.death}", flush=True)
            at = number + 1
        else:
            outcomes, cases = json.loads(child.output.splitlines()[-1])
            total += collections.Counter(outcomes)
            at += cases
        bad = {k: v for k, v in total.items() if k[:5] in ("CRASH", "WRONG")}
        print(
            f"{total.total():,} outcomes of {at - first:,} {what} in "
            f"{time.monotonic() - begin:,.0f} s: {len(bad)} bad; "
            + ", ".join(f"{v:,} {k}" for k, v in total.items() if k not in bad),
            flush=True,
        )
    print(*bad, sep="\n")
    return 1 if bad else 0
