"""`python -m tf_hsm cluster_task`: a task of a cluster, with the op library."""

import errno
import os
import socket

import tensorflow as tf

from tf_hsm import _build
from tf_hsm.cli import ending
from tf_hsm.distribute import cluster_config
from tf_hsm.runtime.library import cpu_isa, library_version
from tf_hsm.tree.memory import memory_bytes


def run(flags):
    """Runs the task that the flags or TF_CONFIG name; ends the process.

    Raises:
      ValueError: they name no task, or are out of range.
      OSError: another process has the port.
    """
    job, index, jobs = _task(flags)
    wait = ending.prepare(flags.with_parent)
    _check_port(jobs[job][index])
    try:
        # Never ended: TensorFlow cannot, and aborts when it is asked to.
        _server = tf.distribute.Server(
            jobs, job_name=job, task_index=index, config=_config()
        )
    except tf.errors.OpError as error:
        raise OSError(
            f"TensorFlow does not run {job} task {index} at "
            f"{jobs[job][index]}: {error.message}"
        ) from error
    name = f"{job} task {index} at {jobs[job][index]}"
    _say(
        f"{name}: process {os.getpid()}, tf_hsm {library_version()} (build "
        f"{_build.fingerprint()}), TensorFlow {tf.__version__}, {_machine()}"
    )
    _say(f"{name} ends: {wait()}")
    os._exit(0)


def _config():
    """Returns a configuration with two threads or more for requests of tasks.

    A worker waits on one of them for a step to end, which needs another when it
    sends tensors to the job ps: with one core, one thread, it never ends.
    """
    threads = max(2, len(os.sched_getaffinity(0)))
    return tf.compat.v1.ConfigProto(inter_op_parallelism_threads=threads)


def _say(line):
    """Prints in one piece: other tasks may write to the same terminal."""
    print(f"{line}\n", end="", flush=True)


def _task(flags):
    """Returns the job, the index, and the jobs with their addresses."""
    jobs, job, index = None, flags.job, flags.task
    if flags.cluster is not None and flags.port is not None:
        raise ValueError(
            "--port and --cluster both say where to listen: give one of them"
        )
    if flags.cluster is not None:
        jobs = cluster_config.read_text(flags.cluster, "--cluster")
    if None in (job, index) or (jobs is None and flags.port is None):
        if cluster_config.VARIABLE not in os.environ:
            raise ValueError(
                "nothing says which task to run: set "
                f"{cluster_config.VARIABLE}, or "
                "give --job, --task, and --port or --cluster"
            )
        known_jobs, task = cluster_config.read_variable()
        jobs, task = jobs or known_jobs, task or (None, None)
        job = task[0] if job is None else job
        index = task[1] if index is None else index
    if None in (job, index):
        raise ValueError(
            f"{cluster_config.VARIABLE} has no task, which has the form "
            '{"type": "ps", "index": 0}'
        )
    if index < 0:
        raise ValueError(f"--task is {index}, but must be 0 or more")
    if flags.port is not None:
        if not 1 <= flags.port <= 65535:
            raise ValueError(f"--port is {flags.port}, but must be 1 to 65535")
        address = f"localhost:{flags.port}"
        jobs = cluster_config.read_jobs({job: {index: address}}, "--job")
        return job, index, jobs
    if jobs is None:
        raise ValueError(
            f"{cluster_config.VARIABLE} has no cluster, which has the form "
            '{"ps": ["host1:2222"]}'
        )
    cluster_config.check_task(job, index, jobs, "the task to run")
    return job, index, jobs


def _check_port(address):
    """Raises an OSError if another process listens there.

    TensorFlow would listen beside it, and each would get some connections.
    """
    port = int(address.rpartition(":")[2])
    with socket.socket() as listener:
        # What earlier connections have left does not count.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                what = "another process listens there"
            else:
                what = error.strerror
            raise OSError(f"port {port} cannot be served: {what}") from error


def _machine():
    gpus = len(tf.config.list_physical_devices("GPU"))
    parts = [f"{gpus} GPUs"] if gpus else []
    parts += [
        f"{len(os.sched_getaffinity(0))} cores ({cpu_isa()})",
        f"{memory_bytes() / 1e9:.1f} GB of memory",
    ]
    return ", ".join(parts)
