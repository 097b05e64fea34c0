"""Asks TensorFlow's servers who they are, without connecting to their cluster.

TensorFlow itself waits for a server as long as it takes, and only within a
cluster that it has connected to. The call is the one by which its sessions
looked for devices: `GetStatus` of `tensorflow.WorkerService`.
"""

import dataclasses
import time

import grpc
import tensorflow as tf

from tf_hsm.runtime import private_tensorflow

_METHOD = "/tensorflow.WorkerService/GetStatus"
_OPTIONS = [
    # A server that starts is found within half a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # As TensorFlow's own connections.
    ("grpc.enable_http_proxy", 0),
]


@dataclasses.dataclass(frozen=True)
class Status:
    """The answer of a server.

    Attributes:
      task: the task that it serves, like "/job:ps/replica:0/task:0".
      incarnation: a number that its process has drawn.
      devices: the types of its devices, such as "CPU".
    """

    task: str
    incarnation: int
    devices: tuple[str, ...]


def ask(addresses, timeout, wait):
    """Asks every server at once.

    Args:
      addresses: a list of "host:port".
      timeout: seconds until all have answered.
      wait: whether to wait for those that do not listen yet.

    Returns:
      A list with a `Status` for each; None where there was no answer, or not
      a server of TensorFlow.
    """
    deadline = time.monotonic() + timeout
    channels = [grpc.insecure_channel(a, _OPTIONS) for a in addresses]
    try:
        calls = [
            channel.unary_unary(_METHOD).future(
                b"", timeout=timeout, wait_for_ready=wait
            )
            for channel in channels
        ]
        return [_status(call, deadline) for call in calls]
    finally:
        for channel in channels:
            channel.close()


def _status(call, deadline):
    left = max(deadline - time.monotonic(), 0)
    try:
        answer = call.result(timeout=left + 1)
    except (grpc.RpcError, grpc.FutureTimeoutError):
        return None
    # `GetStatusResponse { repeated DeviceAttributes device_attributes = 1; }`,
    # which TensorFlow does not have in Python, reads like a list of bytes.
    devices = [
        private_tensorflow.device_attributes(device)
        for device in tf.train.BytesList.FromString(answer).value
    ]
    if not devices:
        return None
    return Status(
        task=devices[0].name.rpartition("/device:")[0],
        incarnation=devices[0].incarnation,
        devices=tuple(device.device_type for device in devices),
    )
