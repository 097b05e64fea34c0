"""The rows of floats that codes were made of, and how far the codes differ."""

import weakref

import keras
import numpy as np
import tensorflow as tf

_ROWS_AT_ONCE = 1 << 13
# The largest error of a number, as a multiple of its scale. In 4 bits, a number
# of -8 scales has the code 7 at best if its sign is not the scale's.
_LARGEST_ERROR = {"int8": 0.501, "uint8": 1.001}
_SMALLEST = 1e-36  # an error below the accuracy of scales near zero
# The ops may take subnormal numbers for 0: an original number, or a scale that
# a code of at most 127 multiplies, or the product.
_FLUSHED = 256 * float(np.finfo(np.float32).tiny)


class KeptOriginals:
    """The rows of floats that `QuantizedRows` were made of.

    Attributes:
      weights: `[rows, width]` float32, a variable or a NumPy array.
      errors: `[rows]` float32, the Euclidean norm of the difference between a
        row and its codes, where an op may take subnormal numbers for 0; rounded
        up, like the next two.
      largest_errors: `[rows]` float32, the largest difference of a number.
      norms: `[rows]` float32, the norm of the row or of its codes, the larger
        one.
      cache: a dictionary from tree to its `ErrorBound`s.
    """

    def __init__(self, rows, weights):
        """Compares `rows` with `weights`; see `QuantizedRows.keep`."""
        self.weights = _checked(rows, weights)
        self.cache = weakref.WeakKeyDictionary()
        count = rows.shape[0]
        self.errors = np.zeros(count, np.float32)
        self.largest_errors = np.zeros(count, np.float32)
        self.norms = np.zeros(count, np.float32)
        for first in range(0, count, _ROWS_AT_ONCE):
            self._compare(rows, slice(first, first + _ROWS_AT_ONCE))

    def _compare(self, rows, some):
        found = np.asarray(self.weights[some], np.float64)
        if not np.isfinite(found).all():
            raise ValueError("weights must be finite to be quantized")
        decoded = rows.decoded(some).astype(np.float64)
        difference = np.abs(found - decoded)
        norms = [np.linalg.norm(x, axis=1) for x in (found, decoded)]
        largest = difference.max(axis=1, initial=0)
        flushed = np.linalg.norm(difference + _FLUSHED, axis=1)
        self.errors[some] = _rounded_up(flushed)
        self.norms[some] = _rounded_up(np.maximum(*norms))
        self.largest_errors[some] = _rounded_up(largest + _FLUSHED)
        scales = np.abs(np.asarray(rows.scales[some])).max(axis=1, initial=0)
        limit = scales * _LARGEST_ERROR[tf.as_dtype(rows.codes.dtype).name]
        # A scale that is NaN is wrong too.
        wrong = np.flatnonzero(~(largest <= limit + _SMALLEST))
        if wrong.size:
            raise ValueError(
                f"weights: row {some.start + wrong[0]} is not the row that the "
                "codes stand for; pass the weights that were quantized"
            )


def _rounded_up(values):
    """Returns float32 numbers above float64 numbers."""
    return np.nextafter(values.astype(np.float32), np.float32(np.inf))


def _checked(rows, weights):
    """Returns the variable, or the array, behind what a user passes."""
    if isinstance(weights, keras.Variable):
        weights = weights.value
    if not isinstance(weights, (tf.Variable, np.ndarray)):
        raise TypeError(
            "weights must be a variable or a NumPy array, but are "
            f"{type(weights).__name__}"
        )
    if tf.as_dtype(weights.dtype) != tf.float32:
        raise TypeError(
            f"weights must be float32, but are {weights.dtype}; convert them "
            "before you quantize them"
        )
    if tuple(weights.shape) != tuple(rows.shape):
        raise ValueError(
            f"weights must have the shape {rows.shape}, but have "
            f"{tuple(weights.shape)}"
        )
    return weights
