"""Servers that this process is connected to, and what is lost of them."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tf_hsm.distribute import server_status
from tf_hsm.distribute.heartbeat import Heartbeat

WORKER = "worker"  # the job whose tasks hold no variables
SERVE = "python -m tf_hsm cluster_task"
_POLL_S = 0.005
_ASK_EVERY_S = 1
_PATIENCE_S = 10  # within which a server answers, however busy; not if paused


class LostServerError(ConnectionError):
    """A server has ended, or was started again; the text says what to do."""


@dataclasses.dataclass(frozen=True)
class Server:
    """A task of a cluster.

    Attributes:
      job: such as "ps".
      index: of the task within the job.
      address: "host:port".
      incarnation: a number that its process has drawn; None if it is not
        known, in which case a restart cannot be noticed.
    """

    job: str
    index: int
    address: str
    incarnation: int | None = None

    @property
    def device(self) -> str:
        """The name for `tf.device`, like "/job:ps/task:0"."""
        return f"/job:{self.job}/task:{self.index}"

    def __str__(self) -> str:
        """For messages."""
        return f"{self.job} task {self.index} at {self.address}"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Servers that this process is connected to; `connect` makes it.

    Attributes:
      servers: a `Server` for each task of each job but the chief's.
      coordinator: the `tf.distribute.coordinator.ClusterCoordinator`, or None
        if none was asked for.
      heartbeat: the thread that asks the servers while steps run, or None.
    """

    servers: tuple[Server, ...]
    _: dataclasses.KW_ONLY
    coordinator: Any = None
    heartbeat: Heartbeat | None = dataclasses.field(default=None, repr=False)

    def devices(self, job: str = "ps") -> list[str]:
        """Returns the tasks of a job for `tf.device`, like "/job:ps/task:0"."""
        return [s.device for s in self.servers if s.job == job]

    def lost(self) -> list[Server]:
        """Returns the servers that have ended, or have lost their variables.

        Each server is asked, and has ten seconds for its answer; where no
        process listens, or a server was silent for the `timeout` of `connect`,
        that is known at once. A task of the job "worker" may have been started
        again, since it holds no variables.
        """
        return [server for server, _ in self._lost()]

    def explain(self, error: BaseException) -> str | None:
        """Says what an error of TensorFlow has to do with a server.

        Args:
          error: what was raised by work on the cluster.

        Returns:
          A sentence with the server and what to do; None for an error that has
          other reasons.
        """
        if not isinstance(error, tf.errors.OpError):
            return None
        if lacks_op(error):
            return (
                f"{self._named_in(error)} lacks an op, as it has not loaded "
                f"tf_hsm: start every server by `{SERVE}`"
            )
        lost = self._lost()
        text = _without_variables(lost)
        if text is not None:
            return text
        if lost:
            server, what = lost[0]
            return f"{server} {what}: start it again by `{SERVE}`"
        if isinstance(error, _CONNECTION_ERRORS):
            return (
                f"the connection to {self._named_in(error)} was lost, though "
                "every server answers now: start this process again, which "
                "restores the last checkpoint"
            )
        return None

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raises a `LostServerError` for what `explain` has a sentence for.

        Raises:
          LostServerError: work in the block failed because of a server.
        """
        try:
            yield
        except tf.errors.OpError as error:
            text = self.explain(error)
            if text is None:
                raise
            raise LostServerError(text) from error

    def join(self) -> None:
        """Waits until everything is done that `coordinator` was given.

        `coordinator.join` itself waits for ever where both a server and all
        workers are lost.

        Raises:
          LostServerError: a server is lost, as `explained` says.
        """
        asked = time.monotonic()
        with self.explained():
            while not self.coordinator.done():
                time.sleep(_POLL_S)
                if time.monotonic() > asked + _ASK_EVERY_S:
                    text = _without_variables(self._lost(waiting=True))
                    if text is not None:
                        raise LostServerError(text)
                    asked = time.monotonic()
            self.coordinator.join()

    def _lost(self, waiting=False):
        """Returns the lost servers, and what became of each.

        Args:
          waiting: whether a server may pause as long as the heartbeat allows.
        """
        silent = self.heartbeat.silent() if self.heartbeat else []
        asked = [s for s in self.servers if s.address not in silent]
        patience = _PATIENCE_S
        if waiting and self.heartbeat:
            patience = self.heartbeat.timeout
        statuses = server_status.ask(
            [s.address for s in asked], patience, wait=False
        )
        answers = dict(zip(asked, statuses, strict=True))
        lost = []
        for server in self.servers:
            status = answers.get(server)
            if status is None:
                lost.append((server, "does not answer any more"))
            elif (
                server.job != WORKER
                and server.incarnation is not None
                and status.incarnation != server.incarnation
            ):
                lost.append((server, "has been started again since"))
        return lost

    def _named_in(self, error):
        """The first server that the text of an error names."""
        places = {
            error.message.find(f"/job:{s.job}/replica:0/task:{s.index}"): s
            for s in self.servers
        }
        found = [place for place in places if place >= 0]
        return places[min(found)] if found else "a server"


# What TensorFlow raises when a connection breaks.
_CONNECTION_ERRORS = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.UnavailableError,
)


def _without_variables(lost):
    """Says which of the lost servers had variables; None if there is none."""
    holders = [(server, what) for server, what in lost if server.job != WORKER]
    if not holders:
        return None
    (server, what), *others = holders
    more = "".join(f" and {other}" for other, _ in others)
    return (
        f"{server}{more} {what}: the variables there are gone, so start this "
        "process and every server again, and restore the last checkpoint"
    )


def lacks_op(error):
    """Whether a task does not know an op of tf_hsm; there are two messages."""
    return isinstance(error, tf.errors.NotFoundError) and any(
        text in error.message
        for text in (
            "Op type not registered 'TfHsm",
            "Op type not registered 'ResourceTfHsm",
            "is neither a type of a primitive operation nor",
        )
    )
