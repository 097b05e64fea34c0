"""Reports the progress of a builder."""

import sys
import time

_SECONDS = 5  # between two lines


def progress(builder, verbose):
    """Returns a function that writes a text to stderr every few seconds.

    `builder` is the name to write; without `verbose` nothing is written.
    """
    start = last = time.monotonic()

    def report(text):
        nonlocal last
        now = time.monotonic()
        if verbose and now - last >= _SECONDS:
            last = now
            print(
                f"Tree.{builder}: {text} ({now - start:.0f} s)",
                file=sys.stderr,
                flush=True,
            )

    return report
