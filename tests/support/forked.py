"""Processes that need not import TensorFlow: forks of one that has."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import tempfile
from unittest import mock


@contextlib.contextmanager
def forks():
    """Yields what starts processes, each forked from one that only imports.

    That one has the environment of the first use.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tf_hsm"])
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
    with (
        forks() as context,
        concurrent.futures.ProcessPoolExecutor(1, context) as executor,
    ):
        return executor.submit(_call, environment, function, args).result()


def _call(environment, function, args):
    os.environ.update(environment or {})
    return function(*args)
