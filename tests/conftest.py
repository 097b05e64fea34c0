"""What all tests have in common."""

import gc

import pytest


def pytest_collection_finish(session):
    """The modules of TensorFlow are not searched for garbage all the time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session, exitstatus):
    """A file that is skipped as a whole, for want of a library, is no error."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    nothing = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    if nothing and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.OK
