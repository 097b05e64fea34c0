"""Calls in several processes: their order, errors, ends and Ctrl-C."""

import multiprocessing
import os
import signal
import threading

import pytest

from examples.corpora import workers


class Interrupts:
    """Is interrupted while it is sent to a process, by way of a thread."""

    def __init__(self):
        self.went_on = False
        self._is_sent = threading.Event()
        self._thread = threading.Thread(target=self._interrupt)
        self._thread.start()

    def _interrupt(self):
        self._is_sent.wait()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    def __reduce__(self):
        self._is_sent.set()
        self._thread.join()
        self.went_on = True
        return int, ()


def test_ctrl_c_while_a_process_starts_ends_it_when_it_has_started():
    """It would complain of what it has not got."""
    value = Interrupts()
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            workers.mapping(int, [value], 2),
        ):
            raise AssertionError("is not interrupted")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, earlier)
    assert value.went_on
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_is_named():
    with (
        pytest.raises(OSError, match="A process that reads was killed"),
        workers.mapping(print, [], 2) as run,
    ):
        # Ends the process at once, as a kill does.
        list(run(os._exit, [1]))


def test_results_come_in_order_and_errors_come_through():
    with workers.mapping(int, [], 3) as run:
        assert list(run(abs, range(-20, 0))) == list(range(20, 0, -1))
    with (
        workers.mapping(int, ["none"], 2) as run,
        pytest.raises(ValueError, match="invalid literal"),
    ):
        list(run(abs, [1]))
