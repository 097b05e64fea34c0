"""Calls of one function, in several processes."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading


def num_processors():
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def mapping(start, arguments, num_processes):
    """Yields a `map(function, tasks)` whose results come in order.

    Args:
        start: called first, in each process; makes what the function needs.
        arguments: of `start`.
        num_processes: 1: this process does it.
    """
    if num_processes == 1:
        start(*arguments)
        yield map
        return
    # Not a fork: this process may have threads, such as TensorFlow's.
    executor = concurrent.futures.ProcessPoolExecutor(
        num_processes,
        multiprocessing.get_context("spawn"),
        _start_process,
        (start, arguments),
    )

    def run(function, tasks):
        # Ctrl-C goes to all processes; those that are started here keep it
        # blocked, and this one ends them.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return executor.map(function, tasks)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    try:
        yield run
    except BaseException:
        # What is being done would be waited for.
        for process in list(executor._processes.values()):
            process.kill()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _start_process(start, arguments):
    threading.Thread(target=_end_with_parent, daemon=True).start()
    start(*arguments)


def _end_with_parent():
    """Ends this process when the one that started it was killed."""
    multiprocessing.parent_process().join()
    os._exit(1)
