"""Connects the process that trains to its servers, and says who is missing."""

import atexit
import dataclasses
from typing import Any

import tensorflow as tf

from tf_hsm.distribute import cluster_config, server_status
from tf_hsm.distribute.cluster import SERVE, WORKER, Cluster, Server, lacks_op
from tf_hsm.distribute.heartbeat import Heartbeat
from tf_hsm.runtime import private_tensorflow
from tf_hsm.runtime.library import library_version

_CHIEF = "chief"
# Jobs whose tasks are not servers that `connect` calls.
_CLIENTS = (_CHIEF, "evaluator")
_connected = []  # the servers, once this process is


def connect(
    cluster: Any = None, *, coordinator: bool = False, timeout: float = 60.0
) -> Cluster:
    """Connects this process, the chief, to the servers of a cluster.

    Afterwards `tf.device("/job:ps/task:0")` places variables and ops on a
    server. Call it once, before anything else of TensorFlow. A chief that is on
    another machine than a server needs an address that this server reaches: a
    job `"chief"` in the cluster.

    TensorFlow's protocol has no authentication and no encryption: servers
    belong on a closed network.

    Args:
      cluster: the addresses, `{"ps": ["host1:2222", "host2:2222"]}`; or a list
        of them, which are the tasks of the job `"ps"`; or None for those in
        the environment variable TF_CONFIG.
      coordinator: whether to make a
        `tf.distribute.coordinator.ClusterCoordinator`, which schedules
        functions on the tasks of the job `"worker"`.
      timeout: seconds for all servers to start and answer. Later a server that
        does not answer for as long, for example on a frozen machine, is lost:
        its connections are closed, and a step that waits for it raises the
        error of a server that was killed. A shorter pause is survived.

    Returns:
      The `Cluster`.

    Raises:
      ValueError: `cluster` or TF_CONFIG is not what it should be.
      RuntimeError: this process was connected before.
      ConnectionError: a server does not answer, serves another task, has not
        loaded tf_hsm, or has another version of it.
    """
    if _connected:
        raise RuntimeError(
            f"this process is connected to {_connected[0]} already; TensorFlow "
            "loses what it has when it connects again: start a new process"
        )
    jobs = _jobs(cluster)
    if coordinator and not {"ps", WORKER} <= set(jobs):
        raise ValueError(
            "a coordinator needs tasks of the jobs ps and worker, but the "
            f"cluster has {', '.join(jobs)}"
        )
    servers = _wait_for(jobs, timeout)
    _connected.extend(servers)
    made = None
    if coordinator:
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(jobs), rpc_layer="grpc"
        )
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        made = tf.distribute.coordinator.ClusterCoordinator(strategy)
        # When Python ends, it deletes the coordinator, which asks a thread to
        # stop that then waits, with a lock, for a lost worker to come back.
        atexit.register(private_tensorflow.never_stop_failure_handler, made)
    else:
        tf.config.experimental_connect_to_cluster(
            tf.train.ClusterSpec(jobs), job_name=_CHIEF
        )
    _check_versions(servers)
    heartbeat = Heartbeat([s.address for s in servers], timeout)
    return Cluster(servers, coordinator=made, heartbeat=heartbeat)


def _jobs(cluster):
    if cluster is None:
        jobs, _ = cluster_config.read_variable()
        if jobs is None:
            raise ValueError(
                f"{cluster_config.VARIABLE} has no cluster, which has the form "
                '{"ps": ["host1:2222"]}'
            )
    else:
        if isinstance(cluster, tf.train.ClusterSpec):
            cluster = cluster.as_dict()
        elif isinstance(cluster, list | tuple):
            cluster = {"ps": cluster}
        jobs = cluster_config.read_jobs(cluster, "cluster")
    if not set(jobs) - set(_CLIENTS):
        raise ValueError(f"the cluster has no servers, only {', '.join(jobs)}")
    return jobs


def _wait_for(jobs, timeout):
    """Returns the servers, all of which have answered."""
    servers = [
        Server(job, index, address)
        for job, addresses in jobs.items()
        if job not in _CLIENTS
        for index, address in sorted(addresses.items())
    ]
    statuses = server_status.ask(
        [server.address for server in servers], timeout, wait=True
    )
    problems = []
    for server, status in zip(servers, statuses, strict=True):
        task = f"/job:{server.job}/replica:0/task:{server.index}"
        if status is None:
            problems.append(
                f"{server} does not answer within {timeout:g} s: start it by "
                f"`{SERVE}`, or correct its address"
            )
        elif status.task != task:
            problems.append(
                f"{server} is another task, {status.task}: correct its "
                "address, or start it as the task that it is here"
            )
    _raise(problems)
    return tuple(
        dataclasses.replace(server, incarnation=status.incarnation)
        for server, status in zip(servers, statuses, strict=True)
    )


def _check_versions(servers):
    ours = library_version()
    problems = []
    for server in servers:
        try:
            with tf.device(f"{server.device}/device:CPU:0"):
                theirs = library_version()
        except tf.errors.NotFoundError as error:
            if not lacks_op(error):
                raise
            problems.append(
                f"{server} has not loaded tf_hsm {ours}: start it by `{SERVE}`"
            )
            continue
        if theirs != ours:
            problems.append(
                f"{server} has tf_hsm {theirs}, but this process has {ours}: "
                "install the same version everywhere"
            )
    _raise(problems)


def _raise(problems):
    if problems:
        raise ConnectionError("\n".join(problems))
