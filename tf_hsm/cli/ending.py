"""Signals that end a process that serves."""

import os
import select
import signal

_PARENT_S = 0.5  # between two looks for the parent


def prepare(with_parent):
    """Takes SIGTERM and SIGINT from now on, which end nothing by themselves.

    Each is a byte of a pipe, and none is lost: Python runs its own handlers in
    the main thread, which would go on waiting for an event if a signal came
    just before it does, or to another thread.

    Args:
      with_parent: whether the end of the parent is one of this process too.

    Returns:
      A function that waits until it is time to end, and says why.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)
    parent = os.getppid()
    seconds = _PARENT_S if with_parent else None

    def wait():
        while not select.select([reader], [], [], seconds)[0]:
            if os.getppid() != parent:
                return "the process that has started it has ended"
        return signal.Signals(os.read(reader, 1)[0]).name

    return wait
