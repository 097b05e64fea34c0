"""What an error of TensorFlow has to do with a worker of a strategy."""

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

_ABORTED = "Collective ops is aborted by"
_TASK = r"/job:(\w+)/replica:\d+/task:(\d+)"
# The first task in a text is the one that was lost: others pass on its error.
_ENDED = re.compile(f"remote target {_TASK} while calling")
_SILENT = re.compile(rf"stopped sending heartbeats\):\s*{_TASK}")
_LEADER_SILENT = "/tensorflow.CoordinationService/Heartbeat"


class LostWorkerError(ConnectionError):
    """A worker has ended, or does not answer; the text says what to do."""


@contextlib.contextmanager
def workers_explained(strategy) -> Iterator[None]:
    """Names the lost worker, when a step fails because of one.

    >>> with tf_hsm.distribute.workers_explained(strategy):
    ...     for batch in batches:
    ...         step(batch)

    Every step needs all workers. TensorFlow ends the step of the others when a
    worker ends, or after 10 seconds without a sign of life.

    Args:
      strategy: a `tf.distribute.MultiWorkerMirroredStrategy`.

    Raises:
      LostWorkerError: work in the block failed because of a worker.
    """
    try:
        yield
    except tf.errors.OpError as error:
        text = _explain(error.message, strategy.cluster_resolver)
        if text is None:
            raise
        raise LostWorkerError(text) from error


def _explain(message, resolver):
    """Says which worker a message is of; None if it is of none."""
    if _ABORTED not in message:
        return None
    cluster = resolver.cluster_spec() if resolver else None
    what, task = "does not answer any more", None
    silent, ended = _SILENT.search(message), _ENDED.search(message)
    if silent:
        task = silent.groups()
    elif _LEADER_SILENT in message:
        task = ("chief" if "chief" in cluster.jobs else "worker"), 0
    elif ended:
        what, task = "has ended", ended.groups()
    else:
        return None
    job, index = task[0], int(task[1])
    address = cluster.task_address(job, index)
    return (
        f"{job} {index} at {address} {what}: its rows are gone, so start all "
        "workers again, and restore the last checkpoint; the log of that "
        "worker may say why"
    )
