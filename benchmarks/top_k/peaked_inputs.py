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


class Peak(NamedTuple):
    """How clearly inputs point to a class."""

    probability: float  # P
    noise: float  # the standard deviation of a logit


def signal(rows, fanouts, depths, peak):
    """What one level adds to each input.

    Args:
      rows: `[n, D]`, the rows w_r.
      fanouts: `[n]`, how many rows a choice was among, K_r.
      depths: `[n]`, the length of each path, L.
      peak: a `Peak`.

    Returns:
      `[n, D]`.
    """
    q = peak.probability ** (1 / depths)
    logits = np.log(np.maximum(fanouts - 1, 1)) + np.log(q / (1 - q))
    return (logits / np.square(rows).sum(1))[:, None] * rows


def noise(shape, mean_square, peak):
    """Draws the noise.

    Args:
      shape: `(n, D)`.
      mean_square: of the numbers in the rows; gives the noise its size.
      peak: a `Peak`.
    """
    deviation = peak.noise / (shape[1] * mean_square) ** 0.5
    return np.random.default_rng(0).normal(0, deviation, shape)
