"""Three CPUs for replicas, to be imported before TensorFlow runs anything."""

import pytest
import tensorflow as tf

CPUS = ["CPU:0", "CPU:1", "CPU:2"]

try:
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * len(CPUS),
    )
except RuntimeError as error:
    pytest.skip(f"{error}: run this file alone", allow_module_level=True)
