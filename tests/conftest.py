"""What all tests have in common."""

import gc
import os

import pytest

# What is imported stays.
gc.disable()


def pytest_collection_finish(session):
    """Garbage is not searched for all the time, in TensorFlow's modules never.

    Each trace of a function makes hundreds of thousands of objects that stay.
    """
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
