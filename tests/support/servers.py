"""Servers of a cluster in processes of their own."""

import contextlib
import functools
import importlib
import multiprocessing
import os
import random
import socket
import subprocess
import sys

from tests.support import forked
from tf_hsm.cli import program

PLAIN = """
import sys, threading
import tensorflow as tf

address = "localhost:" + sys.argv[1]
server = tf.distribute.Server({"ps": [address]}, job_name="ps", task_index=0)
print(address, flush=True)
threading.Event().wait()
"""


def free_port():
    """A port on which nothing listens.

    None of those that the system gives to connections, one of which could take
    it before the server does.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("", port))
            return port


def start(*arguments, environment=None, **options):
    """Starts `python ARGUMENTS`; returns the process, with pipes for output.

    `subprocess.Popen` takes the `options`.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})},
        text=True,
        **{**pipes, **options},
    )


def serve(job, index, port):
    """Starts `python -m tf_hsm cluster_task`."""
    return start("-m", "tf_hsm", *_arguments(job, index, port))


def serve_in_fork(job, index, port):
    """Forks this process to run what `python -m tf_hsm cluster_task` does.

    That saves the seconds of its imports. This process must not have run
    anything of TensorFlow, whose threads a fork has not.
    """
    arguments = [*_arguments(job, index, port), "--with_parent"]
    forks = multiprocessing.get_context("fork")
    process = forks.Process(target=program.main, args=(arguments,))
    process.start()
    return process


def _arguments(job, index, port):
    return "cluster_task", f"--job={job}", f"--task={index}", f"--port={port}"


@contextlib.contextmanager
def ended(processes):
    """Kills what is in a list of processes when the block ends."""
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            if isinstance(process, subprocess.Popen):
                process.communicate()
            else:
                process.join()


def in_new_process(test):
    """Decorates a test without arguments, which connects to a cluster.

    A process does that once.
    """

    @functools.wraps(test)
    def run():
        forked.run(_call, test.__module__, test.__name__)

    run.test = test
    return run


def _call(module, name):
    getattr(importlib.import_module(module), name).test()
