"""What kernels and new memory take in TensorFlow on this machine."""

import numpy as np
import tensorflow as tf

from tf_hsm.estimation import machine_rates

_KERNELS = 200  # in a chain
_NEW_BYTES = 128 << 20
_EXAMPLES, _CLASSES = 256, 16_384
_PRODUCTS = 10
_REPETITIONS = 9
# A product of a batch with a matrix that the caches hold.
_FEW, _NARROW, _WIDE = 32, 512, 2048


def measure(flops, read_write):
    """Returns the numbers of a `Machine` that are times, as a dict.

    Args:
      flops: FLOP/s of a large product of float32.
      read_write: bytes/s of changing memory in place.
    """
    op = _seconds(_chain) / _KERNELS
    return {
        "op": op,
        "fresh": fresh(read_write),
        "softmax": _seconds(_cross_entropy) / (_EXAMPLES * _CLASSES),
        **_of_few_rows(flops),
    }


def _of_few_rows(flops):
    """Returns "half" and "transpose" of a `Machine`.

    From 2 m n k / F (1 + half / m) = the seconds of a product, each timed
    beside a large one, which tells F of that moment.
    """
    runs = [
        machine_rates.product("float32"),
        _products(False),
        _products(True),
    ]
    seconds = [
        [machine_rates.seconds_of(run) for run in runs]
        for _ in range(2 + _REPETITIONS)
    ][2:]
    large, few, other = np.transpose(seconds)
    ideal = _FEW * _NARROW * _WIDE / machine_rates.MATRIX_SIZE**3
    share = float(np.median(few / large)) / _PRODUCTS / ideal
    longer = float(np.median((other - few) / large)) / _PRODUCTS
    longer *= 2 * machine_rates.MATRIX_SIZE**3 / flops
    return {
        "half": _FEW * max(share - 1, 0.0),
        "transpose": max(longer, 0.0) / (_NARROW * _WIDE),
    }


def product_rate(dtype):
    """Returns the FLOP/s of a large product of numbers of a type."""
    multiply = machine_rates.product(dtype)
    operations = 2 * machine_rates.MATRIX_SIZE**3
    return operations / _seconds(lambda: multiply, repetitions=3)


def _chain():
    """Kernels one after the other, with hardly any work."""

    @tf.function
    def chain(x):
        for _ in range(_KERNELS):
            x = tf.math.sin(x)
        return x

    x = tf.ones([8])
    return lambda: chain(x).numpy()


def fresh(read_write):
    """Bytes/s of filling a new tensor, at most the rate of changing one.

    Where TensorFlow keeps what was freed (see docs/estimate.md), new tensors
    are as fast as others.
    """
    numbers = tf.ones([_NEW_BYTES // 4])
    negative = tf.function(lambda: tf.negative(numbers))
    seconds = _seconds(lambda: lambda: negative()[0].numpy())
    # What it negates is read as well.
    seconds -= _NEW_BYTES / read_write
    return min(_NEW_BYTES / max(seconds, 1e-9), read_write)


def _cross_entropy():
    """Softmax losses, which include their gradients."""
    logits = tf.ones([_EXAMPLES, _CLASSES])
    labels = tf.zeros([_EXAMPLES], tf.int64)

    @tf.function
    def losses():
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    return lambda: losses().numpy()


def _products(transposed):
    """Products of a few vectors with a matrix, or with its transpose."""
    matrix = tf.ones([_NARROW, _WIDE]) / _WIDE
    width = _WIDE if transposed else _NARROW

    @tf.function
    def chain(x):
        for _ in range(_PRODUCTS):
            y = tf.matmul(x, matrix, transpose_b=transposed)
            # As wide as x again, for hardly any work.
            x = tf.tile(y, [1, _WIDE // _NARROW])[:, :width]
        return x

    few = tf.ones([_FEW, width])
    return lambda: chain(few).numpy()


def _seconds(make, repetitions=_REPETITIONS):
    """Returns the median of the seconds of what `make()` returns."""
    run = make()
    for _ in range(2):  # one to trace, one to warm up
        run()
    return float(
        np.median([machine_rates.seconds_of(run) for _ in range(repetitions)])
    )
