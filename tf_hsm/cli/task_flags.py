"""The arguments of `python -m tf_hsm cluster_task`."""

from tf_hsm.cli.parser import add_command, add_flags

EXAMPLE = """  python -m tf_hsm cluster_task --job=ps --task=0 --port=2222
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
_FLAGS = {
    "job": "the job of the task: ps or worker",
    "task=INDEX": "its index within the job",
    "port": "where it listens; the cluster need not be known then",
    "cluster=JSON": 'the addresses: {"ps": ["host1:2222", "host2:2222"]}',
    "with_parent": "end too when the process has ended that has started this "
    "one",
}
_SETTINGS = {
    "task": {"type": int},
    "port": {"type": int},
    "with_parent": {"action": "store_true"},
}


def add(commands):
    """Adds `cluster_task` to the parsers of the program; returns its parser."""
    command = add_command(
        commands, "cluster_task", "runs a task of a cluster, for tf.distribute"
    )
    command.description = _HELP.strip()
    add_flags(command, _FLAGS, _SETTINGS)
    command.epilog = f"example:\n{EXAMPLE}"
    return command
