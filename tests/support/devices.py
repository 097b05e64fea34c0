"""Eight CPUs for shards, to be imported before TensorFlow runs anything."""

import pytest
import tensorflow as tf

CPUS = [f"CPU:{i}" for i in range(8)]

try:
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * len(CPUS),
    )
except RuntimeError as error:
    pytest.skip(f"{error}: run this file alone", allow_module_level=True)
