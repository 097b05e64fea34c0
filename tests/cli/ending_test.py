"""`tf_hsm.cli.ending`: no signal is lost, whichever thread it comes to."""

import os
import signal
import threading

import pytest

from tf_hsm.cli import ending

TIMEOUT_S = 60


@pytest.fixture(autouse=True)
def earlier_handlers():
    numbers = signal.SIGTERM, signal.SIGINT
    earlier = [signal.getsignal(number) for number in numbers]
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in zip(numbers, earlier, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_wait(number):
    wait = ending.prepare(with_parent=False)
    os.kill(os.getpid(), number)
    os.kill(os.getpid(), signal.SIGTERM)
    assert wait() == number.name


def test_a_signal_that_comes_to_another_thread():
    """The main thread is not interrupted, and runs no handler of Python's."""
    wait = ending.prepare(with_parent=False)
    waited = threading.Event()
    in_time = []

    def end():
        waited.wait(0.2)  # until the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        in_time.append(waited.wait(TIMEOUT_S))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=end)
    thread.start()
    name = wait()
    waited.set()
    thread.join()
    assert (name, in_time) == ("SIGTERM", [True])
