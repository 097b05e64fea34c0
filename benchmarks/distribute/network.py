"""Runs a measurement in a process with a loopback interface of its own.

What other programs send is then not counted. Where the machine does not allow
that, the interface is that of all, and the result says so.
"""

import contextlib
import fcntl
import importlib
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys

_ROOT = pathlib.Path(__file__).parents[2]
_ALONE = ("unshare", "--map-root-user", "--net")
# SIOCSIFFLAGS, and IFF_UP | IFF_RUNNING; see netdevice(7).
_SET_FLAGS, _UP = 0x8914, 0x41


def run(module, **spec):
    """Calls `measure(**spec)` of a module below `benchmarks`.

    Returns:
      The dict that it returns, and "shared_network": whether others use the
      interface too.

    Raises:
      RuntimeError: the process failed.
    """
    alone = _can_be_alone()
    process = subprocess.run(
        [
            *(_ALONE if alone else ()),
            sys.executable,
            "-m",
            "benchmarks.distribute.network",
            module,
        ],
        cwd=_ROOT,
        env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ},
        input=json.dumps(spec),
        stdout=subprocess.PIPE,
        text=True,
    )
    if process.returncode:
        raise RuntimeError(f"{module} ended with {process.returncode}")
    return json.loads(process.stdout) | {"shared_network": not alone}


def sent_bytes():
    """What was sent over the loopback interface so far, with all headers."""
    with open("/proc/net/dev") as file:
        for line in file:
            name, _, numbers = line.partition(":")
            if name.strip() == "lo":
                # Eight numbers of what was received come before.
                return int(numbers.split()[8])
    raise OSError("/proc/net/dev has no interface lo")


def _can_be_alone():
    try:
        return not subprocess.run(
            [*_ALONE, "true"], capture_output=True
        ).returncode
    except OSError:
        return False


def _start_loopback():
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", _UP)
        # That of all is up, and not ours to start.
        with contextlib.suppress(PermissionError):
            fcntl.ioctl(any_socket, _SET_FLAGS, request)


def _main(module):
    # Whatever a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _start_loopback()
    measure = importlib.import_module(f"benchmarks.{module}").measure
    json.dump(measure(**json.load(sys.stdin)), answers)
    answers.flush()
    # TensorFlow cannot leave a cluster, and complains where servers are gone.
    os._exit(0)


if __name__ == "__main__":
    _main(sys.argv[1])
