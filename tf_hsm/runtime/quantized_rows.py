"""Rows of weights in 8 or 4 bits, which answer and do not train.

cc/core/base/quantized_rows.h has the layout of the codes.
"""

import keras
import numpy as np
import tensorflow as tf

from tf_hsm.runtime import kept_originals, replicas

BLOCK = 64  # columns of a scale, in 4 bits
MODES = ("int8", "int4")
_ROWS_AT_ONCE = 1 << 16


class QuantizedRows(tf.Module):
    """Weights `[rows, width]` in 8 or 4 bits, in place of a float variable.

    `tf_hsm.quantize_rows` makes them. `hierarchical_softmax_top_k`,
    `..._log_prob`, `..._log_probs`, `..._sample`, `label_tree_top_k` and
    `label_tree_log_prob` take them as `weights`, on the CPU, with biases of
    float32 or None. Each result has the bits of the result with `rows.numpy()`
    as float32 weights. A `tf.train.Checkpoint` can hold them.

    Attributes:
      codes: a variable, `[rows, width]` int8, or `[rows, (width + 1) // 2]`
        uint8 with two codes in each.
      scales: a variable `[rows, blocks]` float32. A number is the product of
        its code and the scale of its block. There is one block in 8 bits, and
        one for each 64 columns in 4 bits.
      width: of a row.
      originals: None; or the `KeptOriginals` that `keep` made.

    Raises:
      TypeError: codes or scales are no variables.
    """

    dtype = tf.float32  # of the decoded numbers

    def __init__(self, codes, scales, width):
        """See the attributes."""
        super().__init__(name="quantized_rows")
        for name, value in {"codes": codes, "scales": scales}.items():
            if not isinstance(value, (tf.Variable, keras.Variable)):
                raise TypeError(
                    f"{name} must be a variable, but are {type(value).__name__}"
                )
        self.codes = codes
        self.scales = scales
        self.width = width
        self.originals = None

    @property
    def shape(self):
        """`[rows, width]`."""
        return tf.TensorShape([self.codes.shape[0], self.width])

    def numpy(self):
        """Returns the rows as float32, `[rows, width]`."""
        return self.decoded(slice(None))

    def keep(self, weights):
        """Keeps the rows of floats that these codes were made of.

        `hierarchical_softmax_top_k(..., rescore=100)` and `head.top_k` then
        rank the best 100 classes of the codes anew, by their exact
        log-probabilities.

        >>> np.save("rows.npy", head.kernel.numpy())
        >>> model.quantize("int8", filters=lambda layer: layer is head)
        >>> head.kernel.keep(np.load("rows.npy", mmap_mode="r"))
        >>> best = head.top_k(inputs, 10, rescore=100)

        Do not change the variable, the array, its file or the codes
        afterwards, except by `assign`: `certain` could then be True for a wrong
        answer. No file of the model holds these rows: call `keep` again after
        you load weights or restore a checkpoint. Graphs hold the rows that they
        were traced with. A SavedModel of a graph that rescores from an array
        works only in the process that made it: keep a variable that the module
        has as an attribute instead.

        A bias of -inf, of NaN or of a huge magnitude (-1e9) makes no answer
        certain. To rule out classes, use `allowed` instead.

        Args:
          weights: `[rows, width]` float32: a variable on the CPU; or an array,
            as `np.load("rows.npy", mmap_mode="r")` returns it. A call reads
            the groups on the paths of the candidates from the array.

        Raises:
          TypeError: the weights are no variable and no array, or not float32.
          ValueError: the shape is another one, a number is not finite, or these
            codes are not the codes of the weights.
        """
        self.originals = kept_originals.KeptOriginals(self, weights)

    def decoded(self, rows):
        """Returns some rows, a slice, as float32."""
        codes = np.asarray(self.codes[rows])
        scales = np.asarray(self.scales[rows])
        return _decode(codes, scales, self.width)

    def assign(self, weights):
        """Quantizes a variable or an array `[rows, width]` into these rows.

        `assign` drops the rows that `keep` stored.

        Each scale is the one that makes the largest number of its block an end
        of the range, 127 or -8.

        Raises:
          ValueError: the shape is another one, or a number is not finite.
        """
        if tuple(weights.shape) != tuple(self.shape):
            raise ValueError(
                f"weights must have the shape {self.shape}, but have "
                f"{tuple(weights.shape)}"
            )
        self.originals = None
        for first in range(0, self.shape[0], _ROWS_AT_ONCE):
            rows = np.asarray(
                tf.cast(weights[first : first + _ROWS_AT_ONCE], tf.float32)
            )
            if not np.isfinite(rows).all():
                raise ValueError("weights must be finite to be quantized")
            encode = _encode_8 if self.codes.dtype == tf.int8 else _encode_4
            for variable, values in zip(
                (self.codes, self.scales), encode(rows), strict=True
            ):
                for copy in replicas.copies_of(variable):
                    copy[first : first + len(rows)].assign(values)


def _decode(codes, scales, width):
    """Returns the float32 numbers of codes and scales."""
    if codes.dtype == np.int8:
        return codes * scales
    halves = [(codes.astype(np.int8) << 4) >> 4, codes.view(np.int8) >> 4]
    values = np.empty([len(codes), width], np.float32)
    for number, first in enumerate(range(0, width, BLOCK)):
        last = min(first + BLOCK, width)
        half = (last - first + 1) // 2
        span = slice(first // 2, first // 2 + half)
        values[:, first : first + half] = halves[0][:, span]
        values[:, first + half : last] = halves[1][:, span][
            :, : last - first - half
        ]
        values[:, first:last] *= scales[:, number : number + 1]
    return values


def tensor(weights):
    """Returns a variable, or decoded `QuantizedRows`, as a tensor."""
    if not isinstance(weights, QuantizedRows):
        return tf.convert_to_tensor(weights)
    codes = tf.convert_to_tensor(weights.codes)
    scales = tf.convert_to_tensor(weights.scales)
    if codes.dtype == tf.int8:
        return tf.cast(codes, tf.float32) * scales
    codes = tf.cast(codes, tf.int32)
    low, high = ((half + 8) % 16 - 8 for half in (codes, codes // 16))
    blocks = [tf.zeros([tf.shape(codes)[0], 0])]
    for number, first in enumerate(range(0, weights.width, BLOCK)):
        size = min(BLOCK, weights.width - first)
        begin, half = first // 2, (size + 1) // 2
        block = [low[:, begin : begin + half], high[:, begin : begin + half]]
        block = tf.cast(tf.concat(block, 1)[:, :size], tf.float32)
        blocks.append(block * scales[:, number : number + 1])
    return tf.concat(blocks, 1)


def variables(weights):
    """Returns the variables that weights are, a list of one or two."""
    if isinstance(weights, QuantizedRows):
        return [weights.codes, weights.scales]
    return [weights]


def shapes(mode, num_rows, width):
    """Returns shape and type of the codes, and of the scales.

    Args:
      mode: "int8" or "int4".
      num_rows: of the weights.
      width: of a row.
    """
    if mode == "int8":
        return ((num_rows, width), "int8"), ((num_rows, 1), "float32")
    blocks = max(1, -(-width // BLOCK))
    codes = (num_rows, (width + 1) // 2)
    return (codes, "uint8"), ((num_rows, blocks), "float32")


def quantize_rows(weights, mode="int8"):
    """Returns the rows of a weight matrix in 8 or 4 bits.

    >>> rows = tf_hsm.quantize_rows(head.kernel, "int8")
    >>> tf_hsm.hierarchical_softmax_top_k(rows, biases, inputs, tree, 10)

    With "int8" each row has a scale, and an error of at most 1/254 of its
    largest number. With "int4" each block of 64 columns has a scale, and an
    error of at most 1/16 of its largest number; for numbers of the other sign
    that are almost as large, up to 1/8.

    Args:
      weights: `[rows, width]`, a variable or an array, of any float type.
      mode: "int8" or "int4".

    Returns:
      `QuantizedRows`, with new variables on the CPU.

    Raises:
      ValueError: the mode is another one, the weights are no matrix, or a
        number is not finite.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {MODES}, but is {mode!r}")
    if isinstance(weights, QuantizedRows):
        raise ValueError("weights are quantized already")
    if not hasattr(weights, "shape"):
        weights = np.asarray(weights)
    if len(weights.shape) != 2:
        raise ValueError(
            f"weights must be [rows, width], but have {tuple(weights.shape)}"
        )
    num_rows, width = weights.shape
    with tf.device("CPU:0"):
        codes, scales = (
            tf.Variable(tf.zeros(shape, dtype), trainable=False)
            for shape, dtype in shapes(mode, num_rows, width)
        )
    rows = QuantizedRows(codes, scales, width)
    rows.assign(weights)
    return rows


def _encode_8(rows):
    """Returns codes and scales of float32 rows."""
    scales = np.abs(rows).max(axis=1, keepdims=True, initial=0) / 127
    return _codes(rows, scales, -127, 127), scales


def _encode_4(rows):
    """Returns codes, two in a byte, and scales of float32 rows."""
    codes, scales = [], []
    if not rows.shape[1]:
        return np.zeros([len(rows), 0], np.uint8), np.zeros([len(rows), 1])
    for first in range(0, rows.shape[1], BLOCK):
        block = rows[:, first : first + BLOCK]
        ends = np.argmax(np.abs(block), axis=1)[:, np.newaxis]
        # The end of the range that has one value more stands for the largest.
        scale = np.take_along_axis(block, ends, axis=1) / -8
        values = _codes(block, scale, -8, 7).astype(np.uint8)
        half = (block.shape[1] + 1) // 2
        high = np.zeros_like(values[:, :half])
        high[:, : block.shape[1] - half] = values[:, half:]
        codes.append((values[:, :half] & 15) | (high << 4))
        scales.append(scale)
    return np.concatenate(codes, 1), np.concatenate(scales, 1)


def _codes(rows, scales, low, high):
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.rint(rows / scales)
    codes = np.where(scales == 0, 0, codes)
    return np.clip(codes, low, high).astype(np.int8)
