"""Times a lazy Adam with slots of 8 bits, in TensorFlow's own ops.

The dynamic quantization of Dettmers et al., "8-bit Optimizers via Block-wise
Quantization", 2022. A block is a row, so that a step reads and writes the
blocks of the touched rows alone. *linear* keeps sqrt(v) as a multiple of 1/255
of the largest one of its row, which is the cheapest code.
"""

import time

import numpy as np
import tensorflow as tf

import tf_hsm
from benchmarks.common import machine, units
from benchmarks.optimizers import steps

FLOATS = "float32, one op"
_RATE, _BETA_1, _BETA_2, _EPSILON = 0.001, 0.9, 0.999, 1e-7
_WARM_UP = 1
_EXPONENTS = 7


def dynamic_map(is_signed):
    """Returns the 256 numbers that the codes stand for, ascending."""
    numbers = [0.0, 1.0]
    for exponent in range(_EXPONENTS):
        count = 2 ** (exponent + (not is_signed))
        ends = np.linspace(0.1, 1, count + 1)
        means = (ends[:-1] + ends[1:]) / 2 * 10.0 ** (exponent + 1 - _EXPONENTS)
        numbers += [*means, *(-means if is_signed else [])]
    return np.sort(np.float32(numbers))


class DynamicSlot:
    """A slot `[rows, width]` of codes of the dynamic map."""

    def __init__(self, sizes, is_signed):
        """Makes a slot of zeros."""
        numbers = dynamic_map(is_signed)
        self._numbers = tf.constant(numbers)
        self._cuts = ((numbers[1:] + numbers[:-1]) / 2).tolist()
        zero = int(np.flatnonzero(numbers == 0)[0])
        shape = [sizes.rows, sizes.width]
        self._codes = tf.Variable(tf.fill(shape, tf.constant(zero, tf.uint8)))
        self._scales = tf.Variable(tf.zeros([sizes.rows, 1]))

    def read(self, rows):
        """Returns the numbers of rows."""
        codes = tf.cast(tf.gather(self._codes, rows), tf.int32)
        return tf.gather(self._numbers, codes) * tf.gather(self._scales, rows)

    def write(self, rows, values):
        """Replaces the numbers of rows."""
        scales = tf.reduce_max(tf.abs(values), -1, keepdims=True)
        parts = tf.math.divide_no_nan(values, scales)
        codes = tf.raw_ops.Bucketize(input=parts, boundaries=self._cuts)
        self._assign(rows, codes, scales)

    def _assign(self, rows, codes, scales):
        codes = tf.cast(codes, tf.uint8)
        self._codes.scatter_update(tf.IndexedSlices(codes, rows))
        self._scales.scatter_update(tf.IndexedSlices(scales, rows))


class LinearRoots(DynamicSlot):
    """A slot of numbers that are not negative, by codes of their roots."""

    def __init__(self, sizes):
        """Makes a slot of zeros."""
        super().__init__(sizes, is_signed=False)

    def read(self, rows):
        """Returns the numbers of rows."""
        codes = tf.cast(tf.gather(self._codes, rows), tf.float32)
        return tf.square(codes * (tf.gather(self._scales, rows) / 255))

    def write(self, rows, values):
        """Replaces the numbers of rows."""
        roots = tf.sqrt(values)
        scales = tf.reduce_max(roots, -1, keepdims=True)
        parts = tf.math.divide_no_nan(roots, scales)
        self._assign(rows, parts * 255 + 0.5, scales)


def measure(sizes, repetitions, threads):
    """Times all kinds of slots, which take turns, in a process of its own.

    Returns:
      Name -> {"ms", a median of CPU time, and "samples_ms"}.
    """
    machine.use_threads(threads)
    functions = {
        FLOATS: steps.make_step(tf_hsm.optimizers.LazyAdam(_RATE), sizes),
        "8 bits, v alone": _step(sizes, DynamicSlot(sizes, False)),
        "8 bits, m and v": _step(
            sizes, DynamicSlot(sizes, False), DynamicSlot(sizes, True)
        ),
        "8 bits, linear, v alone": _step(sizes, LinearRoots(sizes)),
    }
    samples = {name: [] for name in functions}
    rng = np.random.default_rng(0)
    for _ in range(_WARM_UP + repetitions):
        gradients = [steps.draw_gradient(sizes, rng) for _ in range(2)]
        for name, function in functions.items():
            function(*gradients[0])
            start = time.process_time()
            function(*gradients[1])
            samples[name].append(1000 * (time.process_time() - start))
    return {
        name: {
            "ms": float(np.median(times[_WARM_UP:])),
            "samples_ms": times[_WARM_UP:],
        }
        for name, times in samples.items()
    }


def _step(sizes, v_slot, m_slot=None):
    """Returns the function of a step; without `m_slot` it has no momentum."""
    table = tf.Variable(tf.zeros([sizes.rows, sizes.width]))

    @tf.function
    def step(rows, gradient):
        v = v_slot.read(rows)
        v += (tf.square(gradient) - v) * (1 - _BETA_2)
        m = gradient
        if m_slot is not None:
            m = m_slot.read(rows)
            m += (gradient - m) * (1 - _BETA_1)
            m_slot.write(rows, m)
        v_slot.write(rows, v)
        change = _RATE * m / (tf.sqrt(v) + _EPSILON)
        table.scatter_sub(tf.IndexedSlices(change, rows))

    return step


def text(sizes, results):
    """Returns the table."""
    one = results[FLOATS]["ms"]
    lines = [
        f"{sizes.rows:,} x {sizes.width:,}, {sizes.touched:,} rows touched: "
        "CPU time of a step of LazyAdam",
        "",
        f"{'slots':<26}{'ms':>10}{'x float32':>12}",
    ]
    for name, times in results.items():
        ms = units.of_seconds(times["ms"] / 1000)
        lines.append(f"{name:<26}{ms:>10}{times['ms'] / one:>12.1f}")
    return "\n".join(lines)
