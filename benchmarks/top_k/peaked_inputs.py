"""Inputs that point to a class, as a trained model's hidden vectors do.

The class is reached by choices, one at each level: for the row w_r among the
K_r of its group, at levels 1 to L. An input is

    x = sum over r of  s_r w_r / |w_r|^2  +  noise
    s_r = log(K_r - 1) + log(q / (1 - q)),  q = P^(1 / L)

s_r is the logit at which a row beats K_r - 1 others of logit 0 with
probability q: P would be the probability of the class, if rows were orthogonal
and there were no noise. The noise is normal, of a size that gives every logit
its standard deviation.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

# The variance of weights that are uniform in [0, 1).
_MEAN_SQUARE = 1 / 12


class Peak(NamedTuple):
    """How clearly inputs point to a class."""

    probability: float  # P
    noise: float  # the standard deviation of a logit


def make(tree, classes, weights, peak):
    """Returns inputs `[B, D]` that point to classes `[B]`.

    Args:
      tree: a `Tree`.
      classes: `[B]`.
      weights: `[rows, D]`, uniform in [0, 1). What all rows have in common, 1/2
        in each number, cancels in a softmax: inputs are made of the rest.
      peak: a `Peak`.
    """
    rows = tree.class_rows[classes]
    examples = np.arange(rows.size)
    depths = tree.group_depths[tree.row_groups[rows]] + 1
    fanouts = np.diff(tree.group_offsets)
    deviation = peak.noise / (weights.shape[1] * _MEAN_SQUARE) ** 0.5
    inputs = np.random.default_rng(0).normal(
        0, deviation, (rows.size, weights.shape[1])
    )
    while rows.size:
        groups = tree.row_groups[rows]
        values = tf.cast(tf.gather(weights, rows), tf.float32).numpy() - 0.5
        q = peak.probability ** (1 / depths[examples])
        logits = np.log(np.maximum(fanouts[groups] - 1, 1)) + np.log(
            q / (1 - q)
        )
        scales = logits / np.square(values).sum(1)
        inputs[examples] += scales[:, None] * values
        rows = tree.group_parents[groups]
        examples, rows = examples[rows >= 0], rows[rows >= 0]
    return inputs
