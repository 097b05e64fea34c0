"""Names of devices."""

from collections.abc import Iterable

import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.runtime import replicas

# In place of names: the replicas of a strategy, which have shards.
REPLICAS = "replicas"
_STRATEGIES = (
    tf.distribute.MirroredStrategy,
    tf.distribute.MultiWorkerMirroredStrategy,
    tf.distribute.OneDeviceStrategy,
)


def is_replicas(devices):
    """Whether an argument `devices` asks for a shard on each replica."""
    return isinstance(devices, str) and devices == REPLICAS


def check_devices(devices):
    """Returns a tuple of names; where only their number is given, made up.

    Raises:
      TypeError: they are something else.
      ValueError: there is none.
    """
    if isinstance(devices, str | bytes | bool):
        raise TypeError(
            "devices must be a list of names of devices, or their number, but "
            f"is {devices!r}"
        )
    if not isinstance(devices, Iterable):
        count = _checks.check_int("devices", devices, 1)
        return tuple(f"device:{i}" for i in range(count))
    devices = tuple(devices)
    if not devices:
        raise ValueError("devices is empty; a plan has at least one")
    for i, device in enumerate(devices):
        if not isinstance(device, str):
            raise TypeError(
                f"devices[{i}] must be the name of a device, but is {device!r}"
            )
    return devices


def devices_of_replicas():
    """Returns the names of the devices of the strategy's replicas, a tuple.

    Without a strategy, there is one replica.

    Raises:
      ValueError: the strategy is another one than those that are possible.
    """
    if not tf.distribute.has_strategy():
        kinds = [d.device_type for d in tf.config.list_logical_devices()]
        return ("GPU:0" if "GPU" in kinds else "CPU:0",)
    strategy = tf.distribute.get_strategy()
    if not isinstance(strategy, _STRATEGIES):
        raise ValueError(
            'devices="replicas" is possible under a tf.distribute.'
            "MirroredStrategy or MultiWorkerMirroredStrategy, but this is a "
            f"{type(strategy).__name__}"
        )
    return tuple(map(_short, _devices_of(strategy)))


def replicas_here():
    """Returns the names of the devices that this process has, a tuple.

    They are the names that `devices_of_replicas` gives these devices.
    """
    if not tf.distribute.has_strategy():
        return devices_of_replicas()
    extended = tf.distribute.get_strategy().extended
    return tuple(map(_short, extended.worker_devices))


def _devices_of(strategy):
    """The name of the device of each replica."""
    here = strategy.extended.worker_devices
    if not replicas.are_of_processes(strategy):
        return here
    cluster = strategy.cluster_resolver.cluster_spec()
    # The strategy assumes that every worker has the devices of this worker.
    local = [tf.DeviceSpec.from_string(device) for device in here]
    return [
        device.replace(job=job, task=task).to_string()
        for job in ("chief", "worker")
        if job in cluster.jobs
        for task in cluster.task_indices(job)
        for device in local
    ]


def _short(device):
    """The name of a device of this machine without the name of the task."""
    found = tf.DeviceSpec.from_string(device)
    if found.job not in (None, "localhost"):
        return device
    return f"{found.device_type}:{found.device_index}"
