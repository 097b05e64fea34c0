"""What all tests have in common."""

import gc
import os
import sys

import pytest

_SESSION = pytest.StashKey()

# What is imported stays.
gc.disable()


def pytest_collection_finish(session):
    """Garbage is not searched for all the time, in TensorFlow's modules never.

    Each trace of a function makes hundreds of thousands of objects that stay.
    """
    session.config.stash[_SESSION] = session
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 50, 100)


def pytest_sessionfinish(session, exitstatus):
    """Nothing to run is no error where that can be meant.

    A file was skipped as a whole, for want of a library; or another shard has
    what a filter asks for.
    """
    if exitstatus != pytest.ExitCode.NO_TESTS_COLLECTED:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    is_skipped = reporter is not None and reporter.stats.get("skipped")
    if is_skipped or "TEST_TOTAL_SHARDS" in os.environ:
        session.exitstatus = pytest.ExitCode.OK


def pytest_unconfigure(config):
    """Ends the process without the collection of what tests left behind.

    The destructor of a tf.data iterator may wait for a thread that waits for
    the interpreter's lock, which the garbage collector holds: a process that
    had printed its last result was seen to hang so.
    """
    session = config.stash.get(_SESSION, None)
    if session is None:
        return
    config.get_terminal_writer().flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(session.exitstatus))
