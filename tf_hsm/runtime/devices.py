"""Which devices TensorFlow has."""

import tensorflow as tf


def check_present(devices):
    """Raises a ValueError unless TensorFlow has devices of these names."""
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
