"""The servers of a cluster on this machine, as processes of their own."""

import contextlib
import os
import random
import socket
import subprocess
import sys
import threading
import time

_LOOK_EVERY_S = 0.2
_PORTS = 20_000, 32_000


class Servers:
    """Starts `python -m tf_hsm cluster_task` for each task, and ends them all.

    TensorFlow's servers listen on every interface of the machine and ask nobody
    for a password: run this where nobody else can reach the ports.

    Attributes:
        addresses: a dict from job to the list of its addresses.
    """

    def __init__(self, num_servers, num_trainers):
        """Starts so many tasks of the jobs "ps" and "worker"."""
        tasks = [("ps", i) for i in range(num_servers)]
        tasks += [("worker", i) for i in range(num_trainers)]
        self._ports = dict(zip(tasks, free_ports(len(tasks)), strict=True))
        self.addresses = {}
        for (job, _), port in self._ports.items():
            self.addresses.setdefault(job, []).append(f"localhost:{port}")
        self._ending = threading.Event()
        self._processes = {task: self._start(*task) for task in tasks}
        self._thread = threading.Thread(target=self._restart, daemon=True)
        self._thread.start()

    def __enter__(self):
        """Returns itself."""
        return self

    def __exit__(self, *_):
        """Ends every process."""
        self._ending.set()
        self._thread.join()
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _start(self, job, index):
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "tf_hsm", "cluster_task"),
                *(f"--job={job}", f"--task={index}"),
                *(f"--port={self._ports[job, index]}", "--with_parent"),
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            # A package in the user's folder would hide the built one.
            cwd=os.path.dirname(os.path.abspath(__file__)),
            # Ctrl-C is for the process that trains, which then ends these.
            start_new_session=True,
        )

    def _restart(self):
        """Starts a trainer again that has ended: it loses nothing.

        A server of the job "ps" has lost its variables; that is not mended by
        starting it again.
        """
        while not self._ending.wait(_LOOK_EVERY_S):
            for task, process in list(self._processes.items()):
                if task[0] == "worker" and process.poll() is not None:
                    print(
                        f"worker task {task[1]} has ended; it is started again",
                        flush=True,
                    )
                    self._processes[task] = self._start(*task)
                    time.sleep(_LOOK_EVERY_S)


def free_ports(count):
    """Ports on which nothing listens, all different.

    The system gives none of these to connections, which could take the port
    before the server does.
    """
    ports, draw = set(), random.SystemRandom()
    while len(ports) < count:
        port = draw.randrange(*_PORTS)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("", port))
            ports.add(port)
    return sorted(ports)
