"""What stops the workers of a head, and what is refused on them."""

import os
import re
import signal
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from tests.support import forked, private, workers
from tests.support import spread_heads as heads
from tests.support.training import assert_near, assert_same
from tf_hsm import distribute
from tf_hsm.runtime import replicas


def error_of(function, *args):
    """The text of the error that a call raises."""
    try:
        function(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def misused(name, start, folder):
    """A worker that does what is refused, and then steps until an error."""
    strategy = heads.strategy_of("workers")
    head = heads.make_head(name, "lazy_adam", "workers")
    heads.load_start(head, start)
    optimizer = heads.make_optimizer(head, "workers")
    step = heads.runner(heads.step_of(head, optimizer), "workers")
    inputs, labels, weights = next(heads.batches(name))
    losses = heads.runner(head, "workers")(inputs, labels)

    def state():
        """The values of what this process has."""
        variables = [*head.row_variables(), *head.optimizer.variables]
        return [variable.numpy() for variable in variables]

    before = state()
    bad = labels.copy()
    bad[10] = heads.N
    errors = [error_of(step, inputs, bad, weights)]
    assert_same(state(), before)
    step(inputs, labels, weights)
    saved = distribute.checkpoint(head)
    path = f"{folder}/file"
    if strategy.cluster_resolver.task_id == 1:
        # Where there is a folder, there cannot be a file.
        os.makedirs(f"{path}_parts/1.data-00000-of-00001")
    plain = tf.train.Checkpoint(head=head)

    def save():
        with distribute.workers_explained(strategy):
            distribute.save(saved, path, strategy)

    errors += [
        error_of(head.save_own_variables, {}),
        error_of(saved.write, f"{folder}/mine"),
        error_of(plain.write, f"{folder}/plain"),
        error_of(head, inputs, labels),
        error_of(head.top_k, inputs, 3),
        error_of(save),
    ]
    forked.send((losses, errors))
    with distribute.workers_explained(strategy):
        while True:
            step(inputs, labels, weights)


LOST = r"LostWorkerError: worker {} at 127.0.0.1:\d+ {}: its rows are gone"


@pytest.mark.parametrize(
    "name, index, fault, what",
    [
        # TensorFlow notices it by the connection, or by a missing heartbeat.
        (
            "huffman",
            1,
            signal.SIGKILL,
            "(?:has ended|does not answer any more)",
        ),
        ("three", 0, signal.SIGSTOP, "does not answer any more"),
    ],
)
def test_a_lost_worker(name, index, fault, what, tmp_path):
    """The others name it. Before, what is refused stops no worker.

    A label that is no class, on one worker, ends the step on all of them.
    """
    one = heads.make_head(name, "lazy_adam")
    start = heads.start_for_workers(one, tmp_path / "one")
    inputs, labels, _ = next(heads.batches(name))
    wanted = one(inputs, labels)
    with workers.started(misused, 2, name, start, str(tmp_path)) as started:
        losses, errors = zip(*(w.result() for w in started), strict=True)
        assert_near(np.concatenate(losses), wanted, 1e-12)
        for i, (bad, own, written, *outside, saved) in enumerate(errors):
            sentence = (
                rf"InvalidArgumentError.*labels\[2\] = {heads.N} of replica 1 "
                rf"is outside \[0, {heads.N}\)"
            )
            assert re.search(sentence, bad, re.DOTALL)
            own_rows = (
                r"ValueError.*(has \d+ of the 118 rows|other workers have)"
            )
            assert re.match(own_rows, own)
            assert "call tf_hsm.distribute.save on all workers" in written
            for error in outside:
                assert "other workers have" in error
            assert ("the worker of replica 1 could not" in saved) == (i == 0)
        assert not list(tmp_path.glob("file.*"))
        os.kill(started[index].process.pid, fault)
        with pytest.raises(AssertionError, match=LOST.format(index, what)):
            started[1 - index].result()


def stepping():
    """A worker that waits for others: the last one does not take part."""
    strategy = heads.strategy_of("workers")
    task = strategy.cluster_resolver.task_id
    with distribute.workers_explained(strategy):
        replicas.gathered(strategy, 0)
        if task == 2:
            signal.pause()
        if task == 1:
            raise tf.errors.UnavailableError(None, None, RESET_OF_2)
        replicas.gathered(strategy, 0)


def test_all_name_the_same_worker():
    """A worker that notices a lost worker tells the others, and may end."""
    with workers.started(stepping, 3) as started:
        for worker in started[1::-1]:
            with pytest.raises(
                AssertionError, match=LOST.format(2, "has ended")
            ):
                worker.result()


RESET_OF_2 = (
    "Collective ops is aborted by: recvmsg:Connection reset by peer\n"
    "Additional GRPC error information from remote target /job:worker/"
    "replica:0/task:2 "
    "while calling /tensorflow.WorkerService/RecvBuf:\n:UNKNOWN"
)
RESET = (
    "Collective ops is aborted by: Collective ops is aborted by: recvmsg:"
    "Connection reset by peer\nAdditional GRPC error information from remote "
    "target /job:worker/replica:0/task:1 while calling /tensorflow."
    "WorkerService/RecvBuf:\n:UNKNOWN\nAdditional GRPC error information from "
    "remote target /job:worker/replica:0/task:0 while calling /tensorflow."
    "WorkerService/RecvBuf:\n"
)
SILENT = (
    "Collective ops is aborted by: Error reported from /job:worker/task:0: The "
    "following tasks are unhealthy (stopped sending heartbeats):\n"
    "/job:worker/replica:0/task:1\nThe tasks have crashed."
)
LEADER = (
    "Collective ops is aborted by: Deadline Exceeded\n"
    "RPC: /tensorflow.CoordinationService/Heartbeat"
)


@pytest.mark.parametrize(
    "message, sentence",
    [
        # Worker 0 passes on what it was told by worker 1.
        (RESET, "worker 1 at host1:1 has ended"),
        (SILENT, "worker 1 at host1:1 does not answer any more"),
        (LEADER, "chief 0 at host0:1 does not answer any more"),
        ("Collective has timed out during execution.", "a worker did not take"),
    ],
)
def test_sentences(message, sentence):
    """The texts come from TensorFlow."""
    cluster = tf.train.ClusterSpec(
        {"chief": ["host0:1"], "worker": ["host2:1", "host1:1"]}
    )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster)
    strategy = mock.Mock(cluster_resolver=resolver)
    with (
        pytest.raises(distribute.LostWorkerError, match=sentence),
        distribute.workers_explained(strategy),
    ):
        raise tf.errors.UnavailableError(None, None, message)


def test_errors_of_other_reasons():
    with (
        pytest.raises(tf.errors.UnavailableError, match="disk"),
        distribute.workers_explained(mock.Mock()),
    ):
        raise tf.errors.UnavailableError(None, None, "disk")


def test_an_error_where_no_worker_is_known():
    """It is the one that is raised."""
    cluster = tf.train.ClusterSpec({"worker": ["host1:1"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster)
    with (
        pytest.raises(KeyError, match="mine"),
        distribute.workers_explained(mock.Mock(cluster_resolver=resolver)),
    ):
        raise KeyError("mine")


def misshapen():
    """A worker that steps until an error; one has inputs of a wrong width."""
    strategy = heads.strategy_of("workers")
    head = heads.make_head("huffman", "lazy_adam", "workers")
    step = heads.runner(heads.step_of(head), "workers")
    inputs, labels, weights = next(heads.batches("huffman"))
    bad = labels.copy()
    bad[10] = heads.N
    for _ in range(2):  # An error of all workers leaves them able to go on.
        with (
            pytest.raises(tf.errors.InvalidArgumentError, match="outside"),
            distribute.workers_explained(strategy),
        ):
            step(inputs, bad, weights)
    with distribute.workers_explained(strategy):
        step(inputs, labels, weights)
        if strategy.cluster_resolver.task_id == 1:
            inputs = inputs[:, 1:]
        while True:
            step(inputs, labels, weights)


def test_an_error_of_one_worker():
    """It ends the other, with its sentence."""
    sentence = "ValueError: y_pred.* must be the hidden vectors"
    names = "LostWorkerError: worker 1 at ", ""
    with workers.started(misshapen, 2) as started:
        for worker, name in zip(started, names, strict=True):
            with pytest.raises(AssertionError, match=f"{name}.*{sentence}"):
                worker.result()


def failing_on_one_device():
    """A worker of two devices; on one, the step fails after an exchange."""
    private.let_workers_have_cpus(2)
    strategy = heads.strategy_of("workers")
    head = heads.make_head("huffman", "lazy_adam", "workers")
    is_last = tf.Variable(False)

    def step(inputs, labels, weights):
        losses, dx = heads.step_of(head)(inputs, labels, weights)
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        fails = is_last & tf.equal(replica, 3)
        with tf.control_dependencies([losses]):
            checked = tf.debugging.Assert(~fails, ["the replica 3 fails"])
        with tf.control_dependencies([checked]):
            return tf.identity(losses), dx

    run = heads.runner(step, "workers")
    batch = next(heads.batches("huffman"))
    with distribute.workers_explained(strategy):
        run(*batch)
        is_last.assign(True)
        while True:
            run(*batch)


def test_an_error_of_one_device():
    """It ends all workers, with its sentence."""
    names = "LostWorkerError: worker 1 at ", "InvalidArgumentError"
    with workers.started(failing_on_one_device, 2) as started:
        for worker, name in zip(started, names, strict=True):
            with pytest.raises(AssertionError, match=name) as raised:
                worker.result()
            assert "the replica 3 fails" in str(raised.value)
