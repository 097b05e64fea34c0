"""How far a long piece of work is, and how long it will take."""

import sys
import time

_QUIET_S = 1.5
_TERMINAL_S = 0.2
_LINE_S = 10


class Progress:
    """A line that says how much is done; none for what takes a second.

    Attributes:
        title: what is done; may change.
        seconds: since the beginning.
    """

    def __init__(self, title, total, unit="", file=None):
        """Begins now.

        Args:
            title: what is done.
            total: how much there is to do, in any measure; None: unknown.
            unit: what else is counted, such as "tokens"; "": nothing.
            file: to write to; `sys.stdout` by default.
        """
        self.title = title
        self._total = total
        self._unit = unit
        self._file = file or sys.stdout
        self._is_terminal = self._file.isatty()
        self._begin = time.monotonic()
        self._shown = self._begin + _QUIET_S
        self._width = 0
        self._done = self._count = 0

    @property
    def seconds(self):
        """Since the beginning."""
        return time.monotonic() - self._begin

    def add(self, done, count=0):
        """Adds what was done since the last call, and says so now and then.

        Args:
            done: in the measure of `total`.
            count: in `unit`.
        """
        self._done += done
        self._count += count
        now = time.monotonic()
        if now - self._shown >= (_TERMINAL_S if self._is_terminal else _LINE_S):
            self._shown = now
            self._write(self._text(now - self._begin))

    def end(self):
        """Ends the line, if there is one."""
        if self._width:
            self._write(self._text(self.seconds))
            if self._is_terminal:
                print(file=self._file, flush=True)
            self._width = 0

    def _text(self, seconds):
        parts, share = [], 0
        if self._total:
            share = min(self._done / self._total, 1)
            parts.append(f"{share:.0%}")
        if self._unit:
            rate = self._count / max(seconds, 1e-9)
            parts.append(f"{self._count:,} {self._unit}, {rate:,.0f}/s")
        if 0 < share < 1:
            parts.append(f"{duration(seconds / share - seconds)} left")
        else:
            parts.append(duration(seconds))
        return f"{self.title}: {'; '.join(parts)}"

    def _write(self, text):
        start, end = ("\r", "") if self._is_terminal else ("", "\n")
        text = text.ljust(self._width)
        self._width = len(text.rstrip())
        print(f"{start}{text}", end=end, file=self._file, flush=True)


def duration(seconds):
    """A time as a person says it, such as "3 min 20 s"."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
