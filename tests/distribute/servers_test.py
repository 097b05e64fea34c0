"""`tf_hsm.distribute.connect`, and what it says of servers that are missing.

The servers are processes, and so is each test that connects to them. Most are
forks; one is `python -m tf_hsm cluster_task`.
"""

import os
import signal
import socket
import threading
import time
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import servers as processes
from tests.support.training import assert_same, layer_step
from tf_hsm import distribute
from tf_hsm.distribute import (
    LostServerError,
    connect,
    heartbeat,
    server_status,
    servers,
)
from tf_hsm.distribute import cluster as cluster_lib
from tf_hsm.layers import HierarchicalSoftmax

TIMEOUT_S = 120
SENTENCE_S = 5  # the most until an error is explained
TREE = tf_hsm.Tree.two_level(70)


def start(started, job, num_tasks):
    """Starts the tasks of a job; returns their addresses."""
    ports = [processes.free_port() for _ in range(num_tasks)]
    for index, port in enumerate(ports):
        started.append(processes.serve_in_fork(job, index, port))
    return [f"localhost:{port}" for port in ports]


def place(device):
    """Parameters of `TREE` on a device."""
    rng = np.random.default_rng(0)
    with tf.device(device):
        weights = tf.Variable(rng.normal(size=(TREE.num_rows, 5)), tf.float32)
        return weights, tf.Variable(rng.normal(size=TREE.num_rows))


def loss_of(parameters):
    """A function of no arguments, for each of the parameters the same."""
    rng = np.random.default_rng(1)
    labels = tf.constant(rng.integers(0, TREE.num_classes, 9))
    inputs = tf.constant(rng.normal(size=(9, 5)))

    @tf.function
    def loss():
        return [
            tf.reduce_mean(
                tf_hsm.hierarchical_softmax_loss(*pair, labels, inputs, TREE)
            )
            for pair in parameters
        ]

    return loss


def pair_of_heads(tree, devices, **options):
    """Heads with the same weights, in this process and on devices."""
    heads = [
        HierarchicalSoftmax(tree, devices=names, **options)
        for names in (None, devices)
    ]
    for head in heads:
        head.build((None, 5))
    distribute.copy_weights(*heads)
    return heads


def check_training(tree, devices):
    """Two steps of a head on devices have the losses of one that is here."""
    heads = pair_of_heads(tree, devices, optimizer="adagrad", dtype="float64")
    rng = np.random.default_rng(2)
    labels = tf.constant(rng.integers(0, tree.num_classes, 9))
    inputs = tf.constant(rng.normal(size=(9, 5)))
    for _ in range(2):
        wanted, found = (layer_step(head, inputs, labels) for head in heads)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def check_codes(devices):
    """Weights in 8 bits lie on devices, and answer as they do here."""
    heads = pair_of_heads(TREE, devices)
    for head in heads:
        head.quantize("int8")
    codes = [kernel.codes.value.device for kernel in heads[1].shard_kernels]
    on_first = ["task:0/device:CPU:0" in device for device in codes]
    assert on_first == [True, False]
    inputs = np.random.default_rng(2).normal(size=(9, 5)).astype("f4")
    assert_same(*(tf.function(head.top_k)(inputs, 7) for head in heads))


def assert_second_is_lost(error, cluster):
    """The error names the second server, and says what to do."""
    assert str(error) == (
        f"ps task 1 at {cluster.servers[1].address} does not answer any more: "
        "the variables there are gone, so start this process and every server "
        "again, and restore the last checkpoint"
    )
    assert [s.index for s in cluster.lost()] == [1]


@processes.in_new_process
def test_two_servers_and_their_loss():
    with processes.ended([]) as started:
        addresses = start(started, "ps", 2)
        cluster = connect(addresses, timeout=TIMEOUT_S)
        assert cluster.devices() == ["/job:ps/task:0", "/job:ps/task:1"]
        assert [s.address for s in cluster.servers] == addresses
        assert cluster.coordinator is None and cluster.lost() == []
        local = place("/job:chief/task:0/device:CPU:0")
        remote = [place(device) for device in cluster.devices()]
        assert "/job:ps/replica:0/task:1" in remote[1][0].device
        loss = loss_of([local, *remote])
        expected, *others = [float(x) for x in loss()]
        np.testing.assert_allclose(others, expected, rtol=1e-6)

        # The top of a head is where its body is made.
        with tf.device(cluster.devices()[1]):
            head = HierarchicalSoftmax(TREE, devices=cluster.devices())
            head.build((None, 5))
        top, *shards = [v.value.device for v in head.row_variables()[::2]]
        assert "/job:ps/replica:0/task:1" in top
        assert ["task:0" in d for d in shards] == [True, False]

        # A pinned tree trains there as on one device.
        check_training(
            tf_hsm.Tree.balanced(70, 2, pinned=True), cluster.devices()
        )

        check_codes(cluster.devices())

        # No error of the cluster: a step whose argument is wrong.
        with (
            pytest.raises(tf.errors.InvalidArgumentError) as caught,
            cluster.explained(),
            tf.device(cluster.devices()[0]),
        ):
            tf.debugging.assert_equal(tf.identity(1), 2)
        assert cluster.explain(caught.value) is None
        assert cluster.explain(ValueError("other")) is None

        started[1].kill()
        begin = time.monotonic()
        with pytest.raises(LostServerError) as caught, cluster.explained():
            while True:
                loss()
        assert time.monotonic() - begin < SENTENCE_S
        assert_second_is_lost(caught.value, cluster)

        # Another process at the same address has not the variables.
        port = addresses[1].rpartition(":")[2]
        started.append(processes.serve("ps", 1, port))
        started[-1].stdout.readline()
        with (
            pytest.raises(
                LostServerError, match="has been started again since"
            ),
            cluster.explained(),
        ):
            loss()
        started[-1].terminate()
        out, err = started[-1].communicate(timeout=TIMEOUT_S)
        assert out == f"ps task 1 at {addresses[1]} ends: SIGTERM\n"
        assert (started[-1].returncode, err) == (0, "")


@processes.in_new_process
def test_a_worker_may_be_lost_but_no_server():
    with processes.ended([]) as started:
        jobs = {
            "ps": start(started, "ps", 1),
            "worker": start(started, "worker", 2),
            "chief": [f"localhost:{processes.free_port()}"],
        }
        cluster = connect(jobs, coordinator=True, timeout=TIMEOUT_S)
        loss = loss_of([place(cluster.devices()[0])])
        coordinator = cluster.coordinator

        def run(num_steps):
            steps = [coordinator.schedule(loss) for _ in range(num_steps)]
            cluster.join()
            return {round(float(step.fetch()[0]), 6) for step in steps}

        values = run(4)
        assert len(values) == 1
        started[1].kill()
        assert run(30) == values
        assert [str(s) for s in cluster.lost()] == [
            f"worker task 0 at {jobs['worker'][0]}"
        ]
        error = tf.errors.UnavailableError(None, None, "gone")
        assert cluster.explain(error) == (
            f"worker task 0 at {jobs['worker'][0]} does not answer any more: "
            "start it again by `python -m tf_hsm cluster_task`"
        )
        # Then nobody is left to notice that the server is lost.
        started[2].kill()
        coordinator.schedule(loss)
        started[0].kill()
        begin = time.monotonic()
        with pytest.raises(
            LostServerError, match=r"^ps task 0 at .* any more: the"
        ):
            cluster.join()
        assert time.monotonic() - begin < SENTENCE_S


@processes.in_new_process
def test_a_server_that_is_frozen():
    """A pause is survived; a longer one ends a step that waits for it."""
    with processes.ended([]) as started:
        addresses = start(started, "ps", 2)
        server_status.ask(addresses, TIMEOUT_S, wait=True)
        timeout = 5
        cluster = connect(addresses, timeout=timeout)
        loss = loss_of([place(device) for device in cluster.devices()])
        before = loss()
        frozen = started[1].pid

        os.kill(frozen, signal.SIGSTOP)
        pause = threading.Timer(2, os.kill, (frozen, signal.SIGCONT))
        pause.start()
        with cluster.explained():
            np.testing.assert_array_equal(loss(), before)
        pause.join()
        assert cluster.lost() == []

        os.kill(frozen, signal.SIGSTOP)
        begin = time.monotonic()
        with pytest.raises(LostServerError) as caught, cluster.explained():
            loss()
        assert timeout - 1 < time.monotonic() - begin < timeout + SENTENCE_S
        assert_second_is_lost(caught.value, cluster)


def test_connections_that_are_closed():
    """Those to one address, by its name, and no others."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [listener.getsockname()[1] for listener in listeners]
    ends = [socket.create_connection(("127.0.0.1", port)) for port in ports]
    files = len(os.listdir("/proc/self/fd"))
    heartbeat.close_connections(f"localhost:{ports[1]}")
    assert len(os.listdir("/proc/self/fd")) == files
    peers = [listener.accept()[0] for listener in listeners]
    assert peers[1].recv(1) == b""
    ends[0].sendall(b"x")
    assert peers[0].recv(1) == b"x"
    for one in (*listeners, *ends, *peers):
        one.close()


def test_a_heartbeat_counts_answers_and_no_time(monkeypatch):
    """A pause of this process is none of the servers'."""
    answers = iter([[1, None]] * 5 + [[None, 1]] + [[None, None]] * 5)
    silent, done = [], threading.Event()

    def ask(addresses, timeout, wait):
        assert addresses == ["a:1", "b:2"] and timeout == 10 and not wait
        silent.append(beat.silent())
        answer = next(answers, None)
        if answer is None:
            done.set()
            threading.Event().wait()
        return answer

    made = threading.Event()
    closed = []
    monkeypatch.setattr(heartbeat, "_LONGEST_INTERVAL_S", 10)
    monkeypatch.setattr(heartbeat, "close_connections", closed.append)
    monkeypatch.setattr(heartbeat.time, "sleep", lambda _: None)
    monkeypatch.setattr(
        heartbeat.server_status,
        "ask",
        lambda *args, **options: made.wait() and ask(*args, **options),
    )
    beat = heartbeat.Heartbeat(["a:1", "b:2"], 60)
    made.set()
    done.wait(TIMEOUT_S)
    assert silent == [[]] * 11 + [["a:1"]] and closed == ["a:1"]


@processes.in_new_process
def test_servers_that_do_not_answer():
    with processes.ended([]) as started:
        (good,) = start(started, "ps", 1)
        with pytest.raises(ConnectionError) as caught:
            connect({"worker": [good]}, timeout=TIMEOUT_S)
        assert str(caught.value) == (
            f"worker task 0 at {good} is another task, "
            "/job:ps/replica:0/task:0: correct its address, or start it as "
            "the task that it is here"
        )
        address = f"localhost:{processes.free_port()}"
        begin = time.monotonic()
        with pytest.raises(ConnectionError) as caught:
            connect([good, address], timeout=2)
        assert time.monotonic() - begin < SENTENCE_S
        assert str(caught.value) == (
            f"ps task 1 at {address} does not answer within 2 s: start it by "
            "`python -m tf_hsm cluster_task`, or correct its address"
        )
        # Nothing of this connects. What does, does so once.
        connect([good])
        with pytest.raises(
            RuntimeError, match=f"connected to ps task 0 at {good}"
        ):
            connect([good])


def test_only_a_known_incarnation_tells_of_a_restart(monkeypatch):
    """A server whose incarnation is unknown is not said to be another one."""
    status = server_status.Status("/job:ps/replica:0/task:0", 7, ("CPU",))
    monkeypatch.setattr(server_status, "ask", lambda *_, **__: [status])
    error = tf.errors.InternalError(None, None, "another reason")
    for incarnation, is_lost in ((None, False), (7, False), (8, True)):
        server = cluster_lib.Server("ps", 0, "a:1", incarnation)
        cluster = cluster_lib.Cluster((server,))
        assert cluster.lost() == [server] * is_lost
        text = cluster.explain(error)
        assert text is None or "has been started again since" in text
        assert (text is not None) == is_lost


@processes.in_new_process
def test_a_server_without_the_library():
    with processes.ended([]) as started:
        port = processes.free_port()
        started.append(processes.start("-c", processes.PLAIN, port))
        with pytest.raises(ConnectionError) as caught:
            connect([f"localhost:{port}"], timeout=TIMEOUT_S)
        assert str(caught.value) == (
            f"ps task 0 at localhost:{port} has not loaded tf_hsm "
            f"{tf_hsm.__version__}: start it by `python -m tf_hsm cluster_task`"
        )
        server = cluster_lib.Server("ps", 0, f"localhost:{port}")
        cluster = cluster_lib.Cluster((server,))
        with (
            pytest.raises(LostServerError, match="as it has not loaded tf_hsm"),
            cluster.explained(),
        ):
            loss_of([place(cluster.devices()[0])])()


@processes.in_new_process
def test_a_server_with_another_version():
    with processes.ended([]) as started:
        (address,) = start(started, "ps", 1)
        versions = ["0.0.9", tf_hsm.__version__]
        with (
            mock.patch.object(servers, "library_version", side_effect=versions),
            pytest.raises(ConnectionError) as caught,
        ):
            chief = f"localhost:{processes.free_port()}"
            connect({"ps": [address], "chief": [chief]}, timeout=TIMEOUT_S)
        assert str(caught.value) == (
            f"ps task 0 at {address} has tf_hsm {tf_hsm.__version__}, but this "
            "process has 0.0.9: install the same version everywhere"
        )


@pytest.mark.parametrize(
    ("cluster", "message"),
    (
        ([], r'cluster\["ps"\] is {}, but must be a list of "host:port"'),
        ({}, "cluster is {}, but must be a dict from each job"),
        ("host:1", "cluster is 'host:1', but must be a dict"),
        (
            ["host"],
            r'cluster\["ps"\]\[0\] is \'host\', but must be "host:port"',
        ),
        (["a:1", "a:0"], r"cluster\[\"ps\"\]\[1\] is 'a:0', .* port of 1 to"),
        (["grpc://a:1"], r"cluster\[\"ps\"\]\[0\] is 'grpc://a:1', but"),
        ({"ps": "a:1"}, r"cluster\[\"ps\"\] is 'a:1', but must be a list"),
        ({"ps": {-1: "a:1"}}, "has the index -1, but must have 0 or more"),
        ({"a b": ["a:1"]}, "has the job 'a b', but a job is a word"),
        (
            {"ps": ["a:1"], "worker": ["b:1", "a:1"]},
            r'cluster\["worker"\]\[1\] is a:1, but so is cluster\["ps"\]\[0\]',
        ),
        ({"chief": ["a:1"]}, "the cluster has no servers, only chief"),
    ),
)
def test_addresses_that_are_wrong(cluster, message):
    with pytest.raises(ValueError, match=message):
        connect(cluster)


def test_addresses_from_the_environment(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ValueError, match="TF_CONFIG is not set; it has the"):
        connect()
    monkeypatch.setenv("TF_CONFIG", '{"task": {"type": "chief", "index": 0}}')
    with pytest.raises(ValueError, match="TF_CONFIG has no cluster"):
        connect()
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"ps": ["localhost:1"]}}')
    with pytest.raises(ValueError, match=r"jobs ps and worker, but .* ps"):
        connect(coordinator=True)
    with pytest.raises(ConnectionError, match="ps task 0 at localhost:1 does"):
        connect(timeout=0.5)
