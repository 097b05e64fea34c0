"""The time that no implementation can beat on this machine.

A step must read the weights W_l of the groups that it touches at each level l,
and it must multiply. With F operations and M bytes per second, B examples of
width D, and K_l rows scored by all examples together at level l:

    forward               sum over l of max(2 K_l D / F, W_l / M) + B D s / M
    forward and backward  sum over l of max(6 K_l D / F, 2 W_l / M)
                          + (8 sum over l of K_l + 3 B D s) / M

s is the size of a number; 2 W_l is weights read once, their gradient written
once; 8 is a float32 probability written and read. A step that also applies
plain SGD need not write the gradient but must write the weights: the same.

F is that of a large matrix product in TensorFlow. M is the best rate of
several ways to stream through memory far larger than the caches: reading for
the forward pass; reading and writing where that is faster, for the others.
"""

import concurrent.futures
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks import _machine

_STREAM_BYTES = 2 << 30
_MATRIX_SIZE = 3072
_TRIES = 3


class Rates(NamedTuple):
    """What the machine does per second, at best."""

    flops: float
    read: float  # bytes
    read_write: float  # bytes read plus bytes written

    def best(self, other):
        """The better of two measurements, rate by rate."""
        return Rates(*map(max, self, other))


class Work(NamedTuple):
    """What a batch of labels asks for, by level of the tree."""

    scored_rows: np.ndarray  # [L], over all examples
    touched_rows: np.ndarray  # [L], once per batch
    touched_groups: int


class Floor(NamedTuple):
    """Seconds, and whose they are."""

    seconds: float
    memory_share: float  # of `seconds`; the rest is arithmetic


def measure_rates(threads, dtype):
    """Measures `Rates`; for 16-bit types F may be that of float32."""
    dtypes = {dtype, "float32"} if tf.as_dtype(dtype).size < 4 else {dtype}
    return Rates(max(map(_product_rate, dtypes)), *_stream_rates(threads))


def work(tree, labels):
    """Counts the `Work` of labels `[B]`."""
    passed = []
    rows = tree.class_rows[labels]
    while rows.size:
        passed.append(tree.row_groups[rows])
        rows = tree.group_parents[passed[-1]]
        rows = rows[rows >= 0]
    groups, examples = np.unique(np.concatenate(passed), return_counts=True)
    depths = tree.group_depths[groups]
    fanouts = np.diff(tree.group_offsets)[groups]
    return Work(
        np.bincount(depths, fanouts * examples).astype(np.int64),
        np.bincount(depths, fanouts).astype(np.int64),
        groups.size,
    )


def floors(work, batch, width, itemsize, rates):
    """Computes the `Floor` of each phase by the formulas above, as a dict."""
    row = width * itemsize
    inputs = batch * row
    arithmetic = 2 * width * work.scored_rows / rates.flops
    weights = row * work.touched_rows
    moved = max(rates.read, rates.read_write)
    backward = _floor(
        3 * arithmetic,
        2 * weights / moved,
        (8 * work.scored_rows.sum() + 3 * inputs) / moved,
    )
    return {
        "forward": _floor(
            arithmetic, weights / rates.read, inputs / rates.read
        ),
        "forward_backward": backward,
        "sgd": backward,
    }


def _floor(arithmetic, memory, rest):
    """Sums levels `[L]` of which the larger time counts, and the rest."""
    levels = np.maximum(arithmetic, memory)
    seconds = levels.sum() + rest
    of_memory = levels[memory >= arithmetic].sum() + rest
    return Floor(float(seconds), float(of_memory / seconds))


def _product_rate(dtype):
    matrix = tf.ones([_MATRIX_SIZE, _MATRIX_SIZE], dtype)
    product = tf.function(lambda: tf.matmul(matrix, matrix)[0, 0])
    return 2 * _MATRIX_SIZE**3 / _shortest(product)


def _stream_rates(threads):
    """Returns the best read rate, and the best read and write rate."""
    num_bytes = min(_STREAM_BYTES, _machine.available_bytes() // 4)
    # NumPy asks for huge pages, and lets threads run side by side.
    numbers = np.ones(num_bytes // 4, np.float32)
    halves = np.array_split(numbers, 2)
    with concurrent.futures.ThreadPoolExecutor(threads) as executor:

        def in_threads(function, *arrays):
            parts = [np.array_split(array, threads) for array in arrays]
            return lambda: list(executor.map(function, *parts))

        read = min(
            _shortest(in_threads(np.max, numbers)),
            _shortest(in_threads(lambda part: np.dot(part, part), numbers)),
        )
        in_place = _shortest(
            in_threads(lambda part: np.negative(part, out=part), numbers)
        )
        copy = _shortest(in_threads(np.copyto, *halves))
    return (
        numbers.nbytes / read,
        max(2 * numbers.nbytes / in_place, numbers.nbytes / copy),
    )


def _shortest(function):
    """Returns the seconds of the fastest of several calls."""
    seconds = []
    for _ in range(_TRIES):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
