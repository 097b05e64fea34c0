"""What is shown while training."""

import sys
import time

_SECONDS_BETWEEN_LINES = 10


class Progress:
    """A line of words per second, loss and time left, ever anew.

    On a terminal the line is written over; elsewhere each is a line of its own,
    every few seconds.
    """

    def __init__(self, num_words):
        """Starts the clock.

        Args:
            num_words: that are left to train on, in all epochs.
        """
        self._num_words = num_words
        self._done = 0
        self._start = self._shown = time.monotonic()
        self._is_terminal = sys.stdout.isatty()
        self._interval = 0.2 if self._is_terminal else _SECONDS_BETWEEN_LINES

    @property
    def words_per_s(self):
        """The rate since the start."""
        return self._done / max(time.monotonic() - self._start, 1e-9)

    def update(self, title, share, loss, num_words):
        """Counts a slice, and shows the line if it is time.

        Args:
            title: which epoch it is.
            share: of the epoch that is done.
            loss: mean of the epoch so far, in nats.
            num_words: in the slice.
        """
        self._done += num_words
        now = time.monotonic()
        if now - self._shown < self._interval:
            return
        self._shown = now
        rate = self.words_per_s
        minutes = (self._num_words - self._done) / max(rate, 1e-9) / 60
        self._write(
            f"{title} {share:4.0%}  loss {loss:.3f}  {rate:,.0f} words/s  "
            f"{minutes:.1f} min left"
        )

    def end_epoch(self, title, loss):
        """Shows an epoch's line for good."""
        self._write(
            f"{title} 100%  loss {loss:.4f}  {self.words_per_s:,.0f} words/s"
        )
        if self._is_terminal:
            print()

    def _write(self, line):
        if self._is_terminal:
            print(f"\r{line}\033[K", end="", flush=True)
        else:
            print(line, flush=True)
