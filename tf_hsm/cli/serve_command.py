"""`python -m tf_hsm serve`: a task of a cluster, with the op library."""

import errno
import os
import socket

import tensorflow as tf

from tf_hsm.cli import ending
from tf_hsm.cli.parser import add_command
from tf_hsm.runtime import cluster
from tf_hsm.runtime.library import cpu_isa, library_version
from tf_hsm.tree.memory import memory_bytes

EXAMPLE = """  python -m tf_hsm serve --job=ps --task=0 --port=2222
"""
_HELP = """
Runs one task of a cluster, which has the ops of tf_hsm, until SIGTERM or
Ctrl-C. Which task it is, TF_CONFIG says:

  TF_CONFIG='{"cluster": {"ps": ["host1:2222", "host2:2222"]},
              "task": {"type": "ps", "index": 0}}'

or flags do, which go before it. Tasks of the job ps hold variables. Those of
the job worker compute for tf.distribute.coordinator.ClusterCoordinator. The
process that trains is none of them: it calls tf_hsm.distribute.connect.

The protocol of TensorFlow has no authentication and no encryption, and the port
is open on every interface of the machine: whoever reaches it runs what they
want with the rights of this process. It belongs on a closed network.
"""


def add(commands):
    """Adds `serve` to the parsers of the program; returns its parser."""
    command = add_command(
        commands, "serve", "runs a task of a cluster, for tf.distribute"
    )
    command.description = _HELP.strip()
    command.add_argument("--job", help="the job of the task: ps or worker")
    command.add_argument(
        "--task", type=int, metavar="INDEX", help="its index within the job"
    )
    command.add_argument(
        "--port",
        type=int,
        help="where it listens; the cluster need not be known then",
    )
    command.add_argument(
        "--cluster",
        metavar="JSON",
        help='the addresses: {"ps": ["host1:2222", "host2:2222"]}',
    )
    command.add_argument(
        "--with_parent",
        action="store_true",
        help="end too when the process has ended that has started this one",
    )
    command.epilog = f"example:\n{EXAMPLE}"
    return command


def run(flags):
    """Serves the task that the flags or TF_CONFIG name; ends the process.

    Raises:
      ValueError: they name none, or not as they should.
      OSError: the port cannot be had.
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
            f"TensorFlow does not serve {job} task {index} at "
            f"{jobs[job][index]}: {error.message}"
        ) from error
    name = f"{job} task {index} at {jobs[job][index]}"
    _say(
        f"{name}: process {os.getpid()}, tf_hsm {library_version()}, "
        f"TensorFlow {tf.__version__}, {_machine()}"
    )
    _say(f"{name} ends: {wait()}")
    os._exit(0)


def _config():
    """With two threads at least for what other tasks ask of this one.

    A worker waits on one of them for a step to end, which needs another when it
    sends tensors to the job ps: with one core, one thread, it never ends.
    """
    threads = max(2, len(os.sched_getaffinity(0)))
    return tf.compat.v1.ConfigProto(inter_op_parallelism_threads=threads)


def _say(line):
    """Prints in one piece: others may write to the same terminal."""
    print(f"{line}\n", end="", flush=True)


def _task(flags):
    """Returns the job, the index, and the jobs with their addresses."""
    jobs = task = None
    if flags.cluster is not None and flags.port is not None:
        raise ValueError(
            "--port and --cluster both say where to listen: give one of them"
        )
    if flags.cluster is not None:
        jobs = cluster.read_text(flags.cluster, "--cluster")
    has_task = flags.job is not None and flags.task is not None
    if not has_task or (jobs is None and flags.port is None):
        if cluster.VARIABLE not in os.environ:
            raise ValueError(
                f"nothing says which task to serve: set {cluster.VARIABLE}, or "
                "give --job, --task, and --port or --cluster"
            )
        in_variable = cluster.read_variable()
        jobs, task = jobs or in_variable[0], in_variable[1]
    job, index = (
        given if given is not None else known
        for given, known in zip(
            (flags.job, flags.task), task or (None, None), strict=True
        )
    )
    if job is None or index is None:
        raise ValueError(
            f"{cluster.VARIABLE} has no task, which has the form "
            '{"type": "ps", "index": 0}'
        )
    if index < 0:
        raise ValueError(f"--task is {index}, but must be 0 or more")
    if flags.port is not None:
        if not 1 <= flags.port <= 65535:
            raise ValueError(f"--port is {flags.port}, but must be 1 to 65535")
        return job, index, {job: {index: f"localhost:{flags.port}"}}
    if jobs is None:
        raise ValueError(
            f"{cluster.VARIABLE} has no cluster, which has the form "
            '{"ps": ["host1:2222"]}'
        )
    cluster.check_task(job, index, jobs, "the task to serve")
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
