"""Workers of a `tf.distribute.MultiWorkerMirroredStrategy` on this machine."""

import contextlib
import json
import os
import signal
import sys
import traceback

from tests.support import forked, servers

TIMEOUT_S = 240


def run(function, count, *args):
    """Calls a function in so many workers; returns what each returns."""
    with started(function, count, *args) as workers:
        return [worker.result() for worker in workers]


@contextlib.contextmanager
def started(function, count, *args):
    """Starts so many workers that call a function; ends them with the block.

    Yields:
        A list of `Worker`s.
    """
    addresses = [f"127.0.0.1:{servers.free_port()}" for _ in range(count)]
    with forked.forks() as context:
        workers = []
        try:
            for index in range(count):
                cluster = {
                    "cluster": {"worker": addresses},
                    "task": {"type": "worker", "index": index},
                }
                workers.append(Worker(context, cluster, function, args))
            yield workers
        finally:
            for worker in workers:
                worker.process.kill()
            for worker in workers:
                worker.process.join()


class Worker:
    """A process that calls a function once.

    Attributes:
        process: The process.
    """

    def __init__(self, context, cluster, function, args):
        self._mine, theirs = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_call, args=(json.dumps(cluster), function, args, theirs)
        )
        self.process.start()
        theirs.close()

    def result(self, timeout=TIMEOUT_S):
        """What the function returns, or sends before, of one worker.

        Raises:
            AssertionError: It raised an error, or does not end.
        """
        if not self._mine.poll(timeout):
            raise AssertionError(f"no result in {timeout} s")
        try:
            is_good, value = self._mine.recv()
        except EOFError:
            raise AssertionError("the worker has ended") from None
        if not is_good:
            raise AssertionError(value)
        return value


# How a worker sends something before it ends.
send = None


def _call(cluster, function, args, connection):
    global send
    send = lambda value: connection.send((True, value))  # noqa: E731
    os.environ["TF_CONFIG"] = cluster
    try:
        send(function(*args))
        # Another worker may still read from this one.
        signal.pause()
    except BaseException:
        connection.send((False, traceback.format_exc()))
    connection.close()
    sys.stdout.flush()
    # Without the strategy's end, which waits for other workers.
    os._exit(0)
