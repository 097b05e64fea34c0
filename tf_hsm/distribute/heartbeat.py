"""Asks the servers of a cluster while steps run, and gives up silent ones.

TensorFlow waits for ever for a server that has stopped without closing its
connections, for example in a frozen machine. The heartbeat closes the
connections to such a server. TensorFlow then raises the error that it raises
when a server is killed.
"""

import contextlib
import ipaddress
import os
import socket
import threading
import time

from tf_hsm.distribute import server_status

_LONGEST_INTERVAL_S, _SHORTEST_INTERVAL_S = 5.0, 0.1
_ASKED = 6  # how often at least before a server is given up


class Heartbeat:
    """A thread that asks every server again and again.

    Attributes:
      timeout: seconds that a server may be silent.
    """

    def __init__(self, addresses, timeout):
        """Starts the thread.

        Args:
          addresses: a list of "host:port".
          timeout: seconds of silence, for all of them.
        """
        self.timeout = timeout
        interval = min(_LONGEST_INTERVAL_S, timeout / _ASKED)
        self._interval = max(_SHORTEST_INTERVAL_S, interval)
        # The number of unanswered questions instead of the time of the last
        # answer: a pause of this process must not make servers look silent.
        self._unanswered = dict.fromkeys(addresses, 0)
        self._thread = threading.Thread(
            target=self._run, name="tf_hsm heartbeat", daemon=True
        )
        self._thread.start()

    def silent(self):
        """Returns the addresses of servers that are silent for too long."""
        return [
            address
            for address, count in self._unanswered.items()
            if count * self._interval >= self.timeout
        ]

    def _run(self):
        while True:
            begin = time.monotonic()
            addresses = list(self._unanswered)
            statuses = server_status.ask(addresses, self._interval, wait=False)
            for address, status in zip(addresses, statuses, strict=True):
                count = self._unanswered[address] + 1
                self._unanswered[address] = 0 if status is not None else count
            for address in self.silent():
                # Each time, since TensorFlow connects again.
                with contextlib.suppress(OSError):
                    close_connections(address)
            passed = time.monotonic() - begin
            time.sleep(max(0, self._interval - passed))


def close_connections(address):
    """Shuts down the TCP connections of this process to "host:port".

    gRPC has no interface to end the connections that TensorFlow has made.
    """
    host, _, port = address.rpartition(":")
    hosts = set()
    with contextlib.suppress(OSError):
        for *_, place in socket.getaddrinfo(host.strip("[]"), int(port)):
            hosts.add(_plain(place[0]))
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError, ValueError), _socket(number) as found:
            peer_host, peer_port, *_ = found.getpeername()
            if peer_port == int(port) and _plain(peer_host) in hosts:
                found.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _socket(number):
    """Yields a copy of a socket, which stays open if the original is closed.

    Raises:
      OSError: the number is of no open socket.
    """
    copy = os.dup(number)
    try:
        found = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with found:
        yield found


def _plain(host):
    """An address of IPv6 that stands for one of IPv4 as the latter."""
    found = ipaddress.ip_address(host)
    return getattr(found, "ipv4_mapped", None) or found
