"""The CPU as several devices, before TensorFlow runs anything."""

import pytest
import tensorflow as tf


def divided(count):
    """Divides the CPU of this process; returns the names of the devices.

    Skips the file that is being imported where it is too late for that.
    """
    try:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * count,
        )
    except RuntimeError as error:
        pytest.skip(f"{error}: run this file alone", allow_module_level=True)
    return [f"CPU:{i}" for i in range(count)]
