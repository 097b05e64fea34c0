"""Calls in processes of their own that need not import TensorFlow."""

import concurrent.futures
import multiprocessing
import os
import tempfile
from unittest import mock


def run(function, *args, environment=None):
    """Calls a function in a new process, forked from one that only imports.

    Args:
        function: Of a module; it may set what a process can set once.
        *args: Its arguments.
        environment: More variables, which are set before the call. The others
            are those of the first call of `run`.

    Returns:
        What the function returns.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tf_hsm"])
    with (
        # TMPDIR may have a longer path than a socket may.
        mock.patch.object(tempfile, "tempdir", "/tmp"),
        concurrent.futures.ProcessPoolExecutor(1, context) as executor,
    ):
        return executor.submit(_call, environment, function, args).result()


def _call(environment, function, args):
    os.environ.update(environment or {})
    return function(*args)
