"""Reports the progress of a builder."""

import sys
import time

_SECONDS = 5  # between two lines


def progress(builder, verbose):
    """Returns a function that takes texts and writes some of them to stderr.

    Args:
      builder: the name of the builder.
      verbose: whether to write a line every few seconds, or nothing.
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
