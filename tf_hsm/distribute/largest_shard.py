"""The expected surplus of the fullest of several shards."""

import math

import numpy as np

_POINTS = 2000
# erf is not in NumPy.
_GRID = np.linspace(-9, 9, 4001)
_NORMAL = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in _GRID])


def expected_largest(means, squares):
    """Returns the mean of the largest of independent sums, a float.

    Sum i has a random number of terms, by Poisson's law, and is taken to be a
    multiple of such a number itself. Its law is approximated as the law of a
    chi-square variable is by Wilson and Hilferty (1931): off by less than 1%
    from a few terms per sum on. Where terms are many, the result is near
    `mean + sqrt(2 ln S * squares)`, and below it.

    A batch has a fixed number of examples, so that one shard has fewer where
    another has more; the difference of the largest and the mean is the same.

    Args:
      means: `[S]`, of each sum.
      squares: `[S]`, the sum of the squares of its terms, in the mean: its
        variance.
    """
    means, squares = (np.asarray(x, np.float64) for x in (means, squares))
    means, squares = means[means > 0], squares[means > 0]
    if means.size < 2:
        return float(means.sum())
    scales = squares / means
    numbers = means / scales
    deviations = np.sqrt(squares)
    begin = max((means - 8 * deviations).max(), 0.0)
    end = (means + 8 * deviations + 8 * scales).max()
    points = np.linspace(begin, end, _POINTS)
    below = np.ones(_POINTS)
    for scale, number in zip(scales, numbers, strict=True):
        # P(n <= k): a Gamma variable of shape k + 1 lies above `number`.
        shape = points / scale + 0.5
        third = 1 / (9 * shape)
        normal = (1 - third - np.cbrt(number / shape)) / np.sqrt(third)
        below *= np.interp(normal, _GRID, _NORMAL)
    above = 1 - below
    area = above.sum() - (above[0] + above[-1]) / 2
    return float(begin + area * (points[1] - points[0]))
