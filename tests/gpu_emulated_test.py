"""The TensorFlow kernels for GPUs, run on the CPU above an emulation of CUDA.

All that lies between TensorFlow and the core's kernels is the same code as on a
GPU, but for the stream and the copies of memory.
"""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tests import gpu_cases
from tests.update_rules import OPTIMIZERS

EMULATED = gpu_cases.Place("CPU:0", label="tf_hsm_emulated")


@pytest.fixture(autouse=True, scope="module")
def kernels():
    (library,) = pathlib.Path("cc/kernels/gpu").glob("*.so")
    tf.load_library(str(library))


@pytest.fixture(autouse=True)
def exact():
    enabled = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    yield
    tf.config.experimental.enable_tensor_float_32_execution(enabled)


@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("name", ["two_level_7", "random", "only_children"])
def test_loss(name, dtype):
    gpu_cases.check_loss(EMULATED, name, (5, 3), dtype)


@pytest.mark.parametrize("name", ["flat", "one_huge_group"])
def test_wide_groups(name):
    gpu_cases.check_loss(EMULATED, name, (17, 33), np.float32)


@pytest.mark.parametrize("leading_shape", [[], [2, 3], [3, 0]])
@pytest.mark.parametrize("has_biases", [True, False])
def test_shapes(has_biases, leading_shape):
    gpu_cases.check_shapes(EMULATED, leading_shape, has_biases)


@pytest.mark.parametrize("label_dtype", [np.int32, np.int64])
def test_bad_labels(label_dtype):
    gpu_cases.check_bad_labels(EMULATED, np.float32, label_dtype)


@pytest.mark.parametrize("ignore_class", [-1, 3])
def test_ignored(ignore_class):
    gpu_cases.check_ignored(EMULATED, np.float32, ignore_class)


@pytest.mark.parametrize("case", gpu_cases.BROKEN_TREES)
def test_broken_trees(case):
    gpu_cases.check_broken_trees(EMULATED, *case)


def test_trees_are_told_apart():
    gpu_cases.check_trees_are_told_apart(EMULATED)


@pytest.mark.parametrize("has_biases", [True, False])
@pytest.mark.parametrize("dtype", gpu_cases.DTYPES)
@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_train_step(rule, dtype, has_biases):
    gpu_cases.check_train_step(
        EMULATED, rule, "random", (5, 3), dtype, has_biases
    )


def test_a_step_keeps_what_was_read():
    gpu_cases.check_a_step_keeps_what_was_read(EMULATED)
