"""Processes whose lines are read, and saves that are seen while they run."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

TIMEOUT_S = 300


class Process:
    """A process whose printed lines are read as they come.

    Attributes:
        pid: its number.
        lines: what it has printed, each with its `time.monotonic()`.
    """

    def __init__(self, command, folder, environment=None):
        """Starts a command in a folder, with more variables of environment."""
        self.lines = []
        self._process = subprocess.Popen(
            command,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "PYTHONFAULTHANDLER": "1",
                **(environment or {}),
            },
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.pid = self._process.pid
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        for line in self._process.stdout:
            self.lines.append((time.monotonic(), line.rstrip()))

    def wait_for(self, text, first=0):
        """Returns (time, line) of the first line with a text.

        Args:
            text: a regular expression for the beginning of a line.
            first: the number of lines that are not looked at.
        """
        deadline = time.monotonic() + TIMEOUT_S
        reading = True
        while reading and time.monotonic() < deadline:
            # Asked before the lines, which are all there once nobody reads.
            reading = self._thread.is_alive()
            for moment, line in self.lines[first:]:
                if re.match(text, line):
                    return moment, line
            time.sleep(0.001)
        raise AssertionError(f"no line begins with {text}:\n{self.printed()}")

    def last(self, pattern):
        """The match of the last line with a pattern."""
        found = [pattern.match(line) for _, line in self.lines]
        return [match for match in found if match][-1]

    def printed(self):
        """All lines."""
        return "\n".join(line for _, line in self.lines)

    def end(self, number=None):
        """Sends a signal, if any; returns the status at the end.

        Raises:
            AssertionError: there is no end; the text has what each thread did.
        """
        if number is not None:
            self._process.send_signal(number)
        try:
            status = self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)
            self._thread.join(TIMEOUT_S)
            raise AssertionError(f"no end:\n{self.printed()}") from None
        self._thread.join(TIMEOUT_S)
        return status


def last_checkpoint(folder):
    """What says which checkpoint is the last one."""
    return (folder / "checkpoint").read_text()


def wait_for_a_save(folder):
    """Returns, in the middle of a save, what `last_checkpoint` says then."""
    deadline = time.monotonic() + TIMEOUT_S
    # Earlier kills have left files too.
    known = _unfinished(folder)
    while True:
        before = last_checkpoint(folder)
        if _unfinished(folder) - known:
            return before
        if time.monotonic() > deadline:
            raise AssertionError("no save was seen")
        time.sleep(0.0005)


def _unfinished(folder):
    """The files of a save that is not over, or was never; by their time."""
    found = set()
    for path in folder.rglob("*"):
        if re.search("temp|_parts", str(path.relative_to(folder))):
            with contextlib.suppress(FileNotFoundError):
                found.add((path, path.stat().st_mtime_ns))
    return found
