"""Workers of a `tf.distribute.MultiWorkerMirroredStrategy` on this machine."""

import json

from tests.support import forked, servers


def run(function, count, *args):
    """Calls a function in so many workers; returns what each returns."""
    with started(function, count, *args) as workers:
        return [worker.result() for worker in workers]


def started(function, count, *args):
    """As `forked.started`, for so many workers that call a function."""
    addresses = [f"127.0.0.1:{servers.free_port()}" for _ in range(count)]
    clusters = [
        {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": index},
        }
        for index in range(count)
    ]
    environments = [{"TF_CONFIG": json.dumps(cluster)} for cluster in clusters]
    return forked.started(function, args, environments)
