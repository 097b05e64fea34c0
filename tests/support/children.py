"""Work in a child process, whose death is an answer and not the end."""

import argparse
import dataclasses
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
