"""What this machine does per second, measured a moment at a time."""

import concurrent.futures
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

STREAM_BYTES = 512 << 20
MATRIX_SIZE = 2048


class Rates(NamedTuple):
    """What the machine does per second."""

    flops: float
    read: float  # bytes
    read_write: float  # bytes read plus bytes written


class Probe:
    """Measures `Rates`, a moment at a time."""

    def __init__(self, threads, dtype):
        """Makes the operands; for 16-bit types F may be F of float32."""
        dtypes = {dtype, "float32"} if tf.as_dtype(dtype).size < 4 else {dtype}
        self._products = [product(dtype) for dtype in dtypes]
        # NumPy asks for huge pages, and lets threads run side by side.
        self._numbers = np.ones(STREAM_BYTES // 4, np.float32)
        self._executor = concurrent.futures.ThreadPoolExecutor(threads)
        self._threads = threads
        self.sample()

    def sample(self):
        """Returns the `Rates` of now, in about a tenth of a second."""
        fastest = min(map(seconds_of, self._products))
        read = min(
            seconds_of(self._in_threads(np.max)),
            seconds_of(self._in_threads(lambda part: np.dot(part, part))),
        )
        in_place = seconds_of(
            self._in_threads(lambda part: np.negative(part, out=part))
        )
        return Rates(
            2 * MATRIX_SIZE**3 / fastest,
            STREAM_BYTES / read,
            2 * STREAM_BYTES / in_place,
        )

    def _in_threads(self, function):
        parts = np.array_split(self._numbers, self._threads)
        return lambda: list(self._executor.map(function, parts))


def median(rates):
    """The median of a list of `Rates`, one by one."""
    return Rates(*map(float, np.median(rates, axis=0)))


def product(dtype):
    """Returns a function that multiplies two large matrices."""
    matrix = tf.ones([MATRIX_SIZE, MATRIX_SIZE], dtype)
    multiply = tf.function(lambda: tf.matmul(matrix, matrix)[0, 0])
    return lambda: multiply().numpy()


def seconds_of(function):
    """Returns the seconds of a call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
