"""The TensorFlow kernels for GPUs, run on the CPU above an emulation of CUDA.

All that lies between TensorFlow and the core's kernels is the same code as on a
GPU, but for the stream and the copies of memory.
"""

import pathlib

import pytest
import tensorflow as tf

from tests.support import gpu_cases, gpu_suite
from tests.support.places import Place

EMULATED = Place("CPU:0", label="tf_hsm_emulated")


@pytest.fixture(autouse=True, scope="module")
def kernels():
    (library,) = pathlib.Path("cc/kernels/gpu").glob("*.so")
    tf.load_library(str(library))


tensor_cores = gpu_cases.tensor_cores


@pytest.mark.parametrize("check, options", gpu_suite.suite(is_emulated=True))
def test_cases(check, options):
    check(EMULATED, **options)
