"""The devices that TensorFlow has."""

import contextlib

import tensorflow as tf

from tf_hsm.runtime.variables import variable_of


def cpu_only(weights, what):
    """A scope for an op that no GPU has.

    On weights that are a tensor, it runs on the CPU.

    Args:
      weights: as users pass them.
      what: the argument of the user that asks for it.

    Raises:
      tf.errors.UnimplementedError: weights are a variable on a GPU, where an
        op on it would run.
    """
    variable = variable_of(weights)
    if variable is None:
        return tf.device("CPU:0")
    if is_on_gpu(weights):
        raise tf.errors.UnimplementedError(
            None,
            None,
            f"{what} is not possible on a GPU; leave it out, or keep the "
            "weights on the CPU",
        )
    return contextlib.nullcontext()


def is_on_gpu(weights):
    """Whether weights are a variable on a GPU."""
    variable = variable_of(weights)
    if variable is None:
        return False
    return tf.DeviceSpec.from_string(variable.device).device_type == "GPU"


def check_present(devices):
    """Checks the devices that parts of a head are to be on.

    Raises:
      ValueError: TensorFlow has no device of a name; or there are replicas,
        each of which would have a copy of every part.
    """
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if devices and replicas > 1:
        raise ValueError(
            f"names of devices are not possible on {replicas} replicas "
            "(tf.distribute), each of which would have a copy of every part; "
            'give the layer devices="replicas", which lets each replica have a '
            "part, or make the model outside the strategy"
        )
    known = [d.name for d in tf.config.list_logical_devices()]
    for i, name in enumerate(devices):
        try:
            asked = tf.DeviceSpec.from_string(name)
        except ValueError:
            asked = None
        if asked is None or not any(_fits(k, asked) for k in known):
            raise ValueError(
                f"devices[{i}] = {name!r} is not there; TensorFlow has "
                f"{', '.join(known)}"
            )


def _fits(name, asked):
    device = tf.DeviceSpec.from_string(name)
    if asked.job is not None and asked.job != (device.job or "localhost"):
        return False
    return all(
        getattr(asked, field) in (None, getattr(device, field))
        or getattr(device, field) is None
        for field in ("replica", "task", "device_type", "device_index")
    )
