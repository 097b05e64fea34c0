"""Bounds on the error of log-probabilities from quantized rows.

Let w_r be the rows, v_r the numbers that the codes stand for, and x an input.
The codes move the logit of row r by

    |(w_r - v_r) . x| <= d_r = min(|w_r - v_r|_2 |x|_2, |w_r - v_r|_max |x|_1)

The log-softmax of a group moves by at most d_r plus the largest d of the group,
a log-sigmoid by at most d_r. E(x) is the largest sum along the path of a class:
the codes move no log-probability by more. A soft cap moves logits closer to
each other.
"""

import dataclasses
import math

import numpy as np
import tensorflow as tf

_ROUNDOFF = 2.0**-24
_LARGEST_LOGIT = 1e37  # beyond it, sums in float32 may be infinite


@dataclasses.dataclass(frozen=True)
class ErrorBound:
    """Bounds the error of a log-probability from codes and rounding.

    Attributes:
      error: the codes move a log-probability by at most `error` |x|_2.
      largest_error: the codes move a log-probability by at most
        `largest_error` |x|_1.
      rounding: float32 rounding of the logits without biases moves a
        log-probability by at most `rounding` |x|_2.
      rounding_of_groups: float32 rounding of the log-softmax moves a
        log-probability by at most `rounding_of_groups`.
      rounding_of_biases: float32 rounding of the sums with biases moves a
        log-probability by at most `rounding_of_biases` times the largest bias.
      depth: the depth of the tree.
      largest_norm: the largest norm of a row.
    """

    error: float
    largest_error: float
    rounding: float
    rounding_of_groups: float
    rounding_of_biases: float
    depth: int
    largest_norm: float

    @classmethod
    def of(cls, weights, tree, has_sigmoids):
        """Returns the bound for `QuantizedRows` with originals and a tree."""
        originals = weights.originals
        kinds = originals.cache.setdefault(tree, {})
        if has_sigmoids not in kinds:
            kinds[has_sigmoids] = cls._of_tree(
                originals, tree, weights.width, has_sigmoids
            )
        return kinds[has_sigmoids]

    @classmethod
    def _of_tree(cls, originals, tree, width, has_sigmoids):
        is_softmax = not has_sigmoids and not tree.pinned

        def on_path(values):
            """The largest sum on a path, if `values` bound logits."""
            values = values.astype(np.float64)
            if tree.pinned:
                values = np.repeat(values, 2)  # the second row has no weights
            elif is_softmax:
                values = values + _largest_of_group(tree, values)
            return _largest_path_sum(tree, values)

        fanouts = np.diff(tree.group_offsets)
        terms = fanouts if is_softmax else np.ones_like(fanouts)
        # The sum of the exponentials, their logarithm and a few operations.
        terms = _gamma(terms + 8 * np.log2(np.maximum(terms, 2)) + 64)
        largest_norm = originals.norms.max(initial=0)
        return cls(
            error=on_path(originals.errors),
            largest_error=on_path(originals.largest_errors),
            rounding=on_path(originals.norms * _gamma(width + 16)),
            rounding_of_groups=_largest_path_sum(tree, terms[tree.row_groups]),
            rounding_of_biases=2 * _gamma(16) * tree.depth,
            depth=tree.depth,
            largest_norm=largest_norm,
        )

    def at(self, inputs, biases):
        """Returns the bound for inputs `[..., width]`, float64.

        The rounding counts four times. The comparison rounds two
        log-probabilities: one of the k-th class by the original rows, and one
        of the last class by the codes. The original head rounds two more: one
        of the k-th class, and one of a class that the codes left out.

        Returns:
          `[...]` float64, and `[...]` bool: whether no logit overflows.
        """
        x = tf.abs(tf.cast(inputs, tf.float64))
        norm = tf.sqrt(tf.reduce_sum(x * x, -1))
        bias = tf.zeros([], tf.float64)
        if biases is not None:
            bias = tf.reduce_max(tf.abs(tf.convert_to_tensor(biases)))
            bias = tf.cast(bias, tf.float64)
        error = tf.minimum(
            self.error * norm, self.largest_error * tf.reduce_sum(x, -1)
        )
        rounding = (
            self.rounding * norm
            + self.rounding_of_groups
            + self.rounding_of_biases * bias
        )
        is_safe = self.largest_norm * norm + bias < _LARGEST_LOGIT
        # The norms themselves are rounded to float64.
        return (error + 4 * rounding) * (1 + 1e-9), is_safe

    def of_sums(self, log_probs):
        """Returns a bound on the rounding of the sum of a path, four times."""
        bound = 4 * _gamma(self.depth + 4) * tf.abs(log_probs)
        return tf.where(tf.math.is_finite(log_probs), bound, 0)


def _gamma(count):
    """A bound on the relative error of `count` roundings, one after another."""
    count = count * _ROUNDOFF
    return np.where(count < 0.5, count / (1 - np.minimum(count, 0.5)), math.inf)


def _largest_of_group(tree, values):
    """Returns `[R]`: the largest value in the group of each row."""
    largest = np.maximum.reduceat(values, tree.group_offsets[:-1])
    return largest[tree.row_groups]


def _largest_path_sum(tree, values):
    """Returns the largest sum of values `[R]` along the path of a class."""
    sums = np.zeros(tree.num_classes)
    rows = tree.class_rows
    while (rows >= 0).any():
        sums += np.where(rows >= 0, values[rows], 0)
        above = tree.group_parents[tree.row_groups[rows]]
        rows = np.where(rows >= 0, above, -1)
    return float(sums.max(initial=0))
