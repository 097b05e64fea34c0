"""The CPU as several devices, before TensorFlow runs anything."""

import os

import pytest
import tensorflow as tf


def divided(count):
    """Divides the CPU of this process; returns the names of the devices.

    Where it is too late for that, skips the file that is being imported;
    under Bazel, which runs each target in a process of its own, fails.
    """
    try:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * count,
        )
    except RuntimeError as error:
        if "TEST_TARGET" in os.environ:
            raise
        pytest.skip(f"{error}: run this file alone", allow_module_level=True)
    return [f"CPU:{i}" for i in range(count)]
