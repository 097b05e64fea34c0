"""Processes that need not import TensorFlow: forks of one that has."""

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
from unittest import mock

TIMEOUT_S = 300


@contextlib.contextmanager
def forks(module="tf_hsm"):
    """Yields what starts processes, each forked from one that only imports.

    That one has the environment and the module of the first use.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([module])
    # TMPDIR may have a longer path than a socket may.
    with mock.patch.object(tempfile, "tempdir", "/tmp"):
        yield context


def run(function, *args, environment=None):
    """Calls a function in a process of its own.

    Args:
        function: A module's function; it may set what a process can set once.
        *args: Its arguments.
        environment: More variables, which are set before the call.

    Returns:
        What the function returns.
    """
    with started(function, args, [environment or {}]) as (process,):
        return process.result()


@contextlib.contextmanager
def started(function, args, environments):
    """Calls a function in several processes; ends them with the block.

    Args:
        function: What each process calls; see `run`.
        args: Its arguments.
        environments: More variables of each process.

    Yields:
        A list of `Fork`s.
    """
    with forks() as context:
        started = []
        try:
            for environment in environments:
                started.append(Fork(context, environment, function, args))
            yield started
        finally:
            for fork in started:
                fork.process.kill()
            for fork in started:
                fork.process.join()


class Fork:
    """A process that calls a function once.

    Attributes:
        process: The process.
    """

    def __init__(self, context, environment, function, args):
        self._mine, theirs = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_call, args=(environment, function, args, theirs)
        )
        self.process.start()
        theirs.close()

    def result(self, timeout=TIMEOUT_S):
        """What the function returns, or sends before.

        Raises:
            AssertionError: It raised an error, or does not end.
        """
        if not self._mine.poll(timeout):
            raise AssertionError(f"no result in {timeout} s")
        try:
            is_good, value = self._mine.recv()
        except EOFError:
            raise AssertionError("the process has ended") from None
        if not is_good:
            raise AssertionError(value)
        return value


# How a process sends something before it ends.
send = None


def _call(environment, function, args, connection):
    global send
    send = lambda value: connection.send((True, value))  # noqa: E731
    os.environ.update(environment)
    try:
        send(function(*args))
        # Another process may still read from this one.
        signal.pause()
    except BaseException:
        connection.send((False, traceback.format_exc()))
    connection.close()
    sys.stdout.flush()
    # Without what ends with the process, which may wait for other processes.
    os._exit(0)
