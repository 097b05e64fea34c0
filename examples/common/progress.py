"""How far a long piece of work is, and how long it will take."""

import time

_EVERY_S = 10


class Progress:
    """Prints every ten seconds how much is done.

    Attributes:
        title: What is done; may change.
    """

    def __init__(self, title, total, unit):
        """Begins now.

        Args:
            title: What is done.
            total: How much there is to do; None: unknown.
            unit: What is counted, such as "tokens".
        """
        self.title = title
        self._total = total
        self._unit = unit
        self._begin = self._shown = time.monotonic()
        self._done = 0

    def add(self, done):
        """Adds the work since the last call."""
        self._done += done
        now = time.monotonic()
        if now - self._shown < _EVERY_S:
            return
        self._shown = now
        seconds = now - self._begin
        text = f"{self._done:,} {self._unit}, {self._done / seconds:,.0f}/s"
        if self._total and self._done:
            share = min(self._done / self._total, 1)
            left = seconds / share - seconds
            text = f"{share:.0%}; {text}; {left:,.0f} s left"
        print(f"{self.title}: {text}", flush=True)
