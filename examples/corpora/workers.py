"""Calls of one function, in several processes."""

import collections
import contextlib
import functools
import itertools
import multiprocessing
import os
import signal
import threading
from multiprocessing import resource_tracker


def num_processors():
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def mapping(start, arguments, num_processes):
    """Yields a `map(function, tasks)` whose results come in order.

    A process has one task or one result at a time, so that memory does not grow
    where results are taken slowly.

    Args:
        start: called first, in each process; makes what the function needs.
        arguments: of `start`.
        num_processes: 1: this process does it.

    Raises:
        OSError: from the map, if a process was killed.
    """
    if num_processes == 1:
        start(*arguments)
        yield map
        return
    with contextlib.ExitStack() as stack:
        pipes = [
            stack.enter_context(_process(start, arguments))
            for _ in range(num_processes)
        ]
        yield functools.partial(_map, pipes)


@contextlib.contextmanager
def _process(start, arguments):
    """Yields a pipe to a process, which is killed at the end."""
    # Not a fork: this process may have threads, such as TensorFlow's.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_work, args=(theirs, start, arguments), daemon=True
    )
    try:
        # What starts now would unblock Ctrl-C.
        resource_tracker.ensure_running()
        with _delayed_ctrl_c():
            process.start()
        theirs.close()
        yield ours
    finally:
        ours.close()
        if process.pid is not None:
            process.kill()
            process.join()


@contextlib.contextmanager
def _delayed_ctrl_c():
    """Ctrl-C counts at the end; processes that start here have it blocked.

    It goes to all processes, and this one ends the others. The block is one of
    this thread: another may get the signal, for whose sake the main thread has
    another handler.
    """
    came = []
    is_main = threading.current_thread() is threading.main_thread()
    if is_main:
        earlier = signal.signal(signal.SIGINT, lambda *_: came.append(True))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        if is_main:
            signal.signal(signal.SIGINT, earlier)
    if came:
        signal.raise_signal(signal.SIGINT)


def _map(pipes, function, tasks):
    tasks = iter(tasks)
    busy = collections.deque()
    # A task for each, then the next for the one that is done.
    for pipe, task in zip(pipes, tasks, strict=False):
        pipe.send((function, task))
        busy.append(pipe)
    while busy:
        pipe = busy.popleft()
        try:
            result, error = pipe.recv()
        except EOFError:
            raise OSError(
                "A process that reads was killed; is memory short? One process "
                "needs less: bazel run //:read -- --processes=1 ..."
            ) from None
        if error:
            raise error
        for task in itertools.islice(tasks, 1):
            pipe.send((function, task))
            busy.append(pipe)
        yield result


def _work(pipe, start, arguments):
    """What a process does, until the other end of the pipe is closed."""
    with contextlib.suppress(EOFError, OSError):
        error = _outcome(start, *arguments)[1]
        while True:
            function, task = pipe.recv()
            pipe.send((None, error) if error else _outcome(function, task))


def _outcome(function, *arguments):
    """The result of a call, or None, and the error, or None."""
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error
