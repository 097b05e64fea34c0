"""Names of workers in the errors of TensorFlow."""

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from tf_hsm.runtime import private_tensorflow

_ABORTED = "Collective ops is aborted by"
_TIMED_OUT = "Collective has timed out"
_AGAIN = "start all workers again, and restore the last checkpoint"
_TASK = r"/job:(\w+)/replica:\d+/task:(\d+)"
# The first task in a message is the lost one: other tasks repeat its error.
_ENDED = re.compile(f"remote target {_TASK} while calling")
_SILENT = re.compile(rf"stopped sending heartbeats\):\s*{_TASK}")
_END = " (end of its error)"
# What a worker has told the others.
_TOLD = re.compile(
    r"\w+ \d+ at \S+ (?:has ended|does not answer any more): its rows are gone"
    rf"|\w+ \d+ at \S+ has raised .*?{re.escape(_END)}"
)
# An error of a step that all workers have, and that lets them go on.
_WRONG_LABEL = re.compile(r"of replica \d+ is outside")
_LONGEST = 500  # of the text of an error that is told
_LEADER_SILENT = "/tensorflow.CoordinationService/Heartbeat"


class LostWorkerError(ConnectionError):
    """A worker has ended, does not answer, or has raised an error."""


@contextlib.contextmanager
def workers_explained(strategy) -> Iterator[None]:
    """Names the worker by which a step fails.

    >>> with tf_hsm.distribute.workers_explained(strategy):
    ...     for batch in batches:
    ...         step(batch)

    Every step needs all workers. TensorFlow ends the step of the other workers
    when a worker ends, or misses its heartbeats for some seconds. The worker
    that notices it first tells the others, so that all of them name the worker
    that was lost first. A worker that leaves the block with another error tells
    the others, too, which would wait for it. All workers have the error of a
    label that is no class and of a failed `save`: these are not told, and the
    workers can go on.

    Args:
      strategy: a `tf.distribute.MultiWorkerMirroredStrategy`.

    Raises:
      LostWorkerError: a collective in the block failed because of a worker.
    """
    resolver = strategy.cluster_resolver
    try:
        yield
    except (StopIteration, tf.errors.OutOfRangeError):
        raise  # The data have ended.
    except tf.errors.OpError as error:
        text = _explain(error.message, resolver)
        if text is None:
            _tell_error(error, resolver)
            raise
        if _TOLD.match(text):
            _tell_workers(text)
        raise LostWorkerError(text) from error
    except Exception as error:
        _tell_error(error, resolver)
        raise


def _tell_error(error, resolver):
    """Tells the other workers an error of this one, if they lack it."""
    is_of_all = getattr(error, "is_of_all_workers", False)
    if resolver is None or is_of_all or _WRONG_LABEL.search(str(error)):
        return
    job, index = resolver.task_type, resolver.task_id
    try:
        address = resolver.cluster_spec().task_address(job, index)
    except (TypeError, ValueError):
        return  # The resolver does not know which worker this is.
    text = " ".join(f"{type(error).__name__}: {error}"[:_LONGEST].split())
    _tell_workers(f"{job} {index} at {address} has raised {text}{_END}")


def _tell_workers(text):
    # The process with the coordination service may have ended, and a context
    # that has run nothing has no service.
    with contextlib.suppress(tf.errors.OpError, ValueError):
        private_tensorflow.report_error(tf.errors.UNAVAILABLE, text)


def _explain(message, resolver):
    """Returns a sentence about a worker for an error message, or None."""
    if _TIMED_OUT in message:
        return (
            "a worker did not take part in a step within the timeout of the "
            f"strategy's communication_options: {_AGAIN}; the log of each "
            "worker may say why"
        )
    if _ABORTED not in message or resolver is None:
        return None
    told = _TOLD.search(message)
    if told:
        text = told[0].removesuffix(_END)
        return f"{text}, so {_AGAIN}; the log of that worker may say why"
    cluster = resolver.cluster_spec()
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
        f"{job} {index} at {address} {what}: its rows are gone, so {_AGAIN}; "
        "the log of that worker may say why"
    )
