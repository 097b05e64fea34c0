"""Which devices TensorFlow has."""

import tensorflow as tf


def check_present(devices):
    """Raises a ValueError unless TensorFlow has devices of these names."""
    known = [d.name for d in tf.config.list_logical_devices()]
    for i, name in enumerate(devices):
        asked = tf.DeviceSpec.from_string(name)
        if not any(_fits(tf.DeviceSpec.from_string(k), asked) for k in known):
            raise ValueError(
                f"devices[{i}] = {name!r} is not there; TensorFlow has "
                f"{', '.join(known)}"
            )


def _fits(device, asked):
    return all(
        getattr(asked, field) in (None, getattr(device, field))
        or getattr(device, field) is None
        for field in ("job", "replica", "task", "device_type", "device_index")
    )
