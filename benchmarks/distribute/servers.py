"""Processes that serve tasks of a cluster on this machine."""

import socket
import subprocess
import sys

import tensorflow as tf


class Servers:
    """Tasks of the job ps, to which this process is connected.

    Attributes:
      devices: their names, for a plan.
    """

    def __init__(self, count):
        """Starts them. A process can do so once."""
        self._processes = []
        addresses = []
        for index in range(count):
            port = _free_port()
            self._processes.append(_start(port, index))
            addresses.append(f"localhost:{port}")
        for process in self._processes:
            if not process.stdout.readline():
                raise RuntimeError(f"a server ended with {process.wait()}")
        tf.config.experimental_connect_to_cluster(
            tf.train.ClusterSpec({"ps": addresses})
        )
        self.devices = [f"/job:ps/task:{i}" for i in range(count)]

    def __enter__(self):
        """Returns itself."""
        return self

    def __exit__(self, *error):
        """Kills them."""
        for process in self._processes:
            process.kill()
            process.communicate()


def _start(port, index):
    return subprocess.Popen(
        [
            sys.executable,
            *("-m", "tf_hsm", "cluster_task", "--job=ps", "--with_parent"),
            *(f"--task={index}", f"--port={port}"),
        ],
        stdout=subprocess.PIPE,
    )


def _free_port():
    with socket.socket() as listener:
        listener.bind(("", 0))
        return listener.getsockname()[1]
