"""Measures the machine that this process runs on."""

import concurrent.futures
import dataclasses
import functools
import os
import pathlib
import platform
import re
import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_hsm.estimation.machine import DEFAULT, MACHINES, Machine

STREAM_BYTES = 512 << 20
MATRIX_SIZE = 2048
_SAMPLES = 5  # of the rates; their medians count


def machine_of(value):
    """Returns the `Machine` of the argument `machine` of an estimate."""
    if value is None:
        source = "not this machine, which machine='here' measures"
        return dataclasses.replace(MACHINES[DEFAULT], source=source)
    if isinstance(value, Machine):
        return value
    if isinstance(value, Mapping):
        return Machine.from_dict(value)
    if not isinstance(value, str):
        raise TypeError(
            "machine must be a name, a dict of numbers or a Machine, not "
            f"{type(value).__name__}"
        )
    if value == "here":
        return _here()
    if value not in MACHINES:
        raise ValueError(
            f"machine is {value!r}; it must be 'here' or one of "
            f"{', '.join(MACHINES)}"
        )
    return MACHINES[value]


def calibrate():
    """Measures what the CPU of this machine does in a second.

    It takes about two seconds, on the threads that TensorFlow uses, and should
    have the machine for itself. It times matrix products of float32, and reads
    and changes memory. The other figures follow from these rates, as they are
    on the machine of two cores that is the default. Keep the figures with
    `Machine.to_dict`.

    Returns:
      A `Machine`, for the argument `machine` of `tf_hsm.estimate`. Its
      `cost_model` is for trees.
    """
    usual = MACHINES[DEFAULT]
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    threads = threads or len(os.sched_getaffinity(0))
    with tf.device("CPU:0"):
        probe = Probe(threads, "float32")
        rates = median([probe.sample() for _ in range(_SAMPLES)])
    slower = usual.rate("float32") / rates.flops
    thinner = usual.read_write / rates.read_write
    model = usual.cost_model
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return dataclasses.replace(
        usual,
        name=f"{_cpu()}, {threads} threads",
        flops={dtype: rate / slower for dtype, rate in usual.flops.items()},
        read=rates.read,
        read_write=rates.read_write,
        memory=float(memory),
        fresh=usual.fresh / thinner,
        softmax=usual.softmax * slower,
        cost_model=dataclasses.replace(
            model,
            weight=model.weight * thinner,
            logit=model.logit * slower,
            product=model.product * slower,
        ),
        source="measured here",
    )


_here = functools.cache(calibrate)


def _cpu():
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    found = re.search(r"model name\s*: (.*)", text)
    return found[1] if found else platform.machine()


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
