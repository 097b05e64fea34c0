"""What draws should be like, by brute force, and the check that they are.

Draws among some classes have log p(class | input) of a known mean and variance,
which are not those of draws among others or by other probabilities.
"""

from typing import NamedTuple

import numpy as np

import tf_hsm
from benchmarks.heads import brute_force

# How far the mean may be from what it should be, in its standard deviations.
_MOST_DEVIATIONS = 6.0
# How far the probabilities of the set of top_p may be added up wrongly.
_ROUNDING = 1e-5


class Draws(NamedTuple):
    """Draws among the best classes of each of n inputs.

    Attributes:
      size: `[n]`, how many classes there are to draw from.
      least: `[n]`, the log-probability of the last of them.
      mean: `[n]`, that of a draw.
      variance: `[n]`.
    """

    size: np.ndarray
    least: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


def make(head, restrictions, count):
    """Computes what draws for the first `count` inputs should be like.

    Args:
      head: a `heads.Head`.
      restrictions: name -> arguments "top_k" or "top_p", or none.
      count: how many inputs.

    Returns:
      Name -> `Draws`; and {"inputs", "top_1", "entropy"}, the latter two means.
    """
    rows = {name: [] for name in restrictions}
    clarity = []
    for nodes in brute_force.chunks(head, count):
        classes = nodes.numpy()[:, head.tree.class_rows]
        clarity.append(brute_force.clarity(classes))
        for log_probs in -np.sort(-classes, axis=1):
            log_probs = log_probs.astype(np.float64)
            for name, arguments in restrictions.items():
                rows[name].append(_of_input(log_probs, **arguments))
    top_1, entropy = map(np.concatenate, zip(*clarity, strict=True))
    return {
        name: Draws(*map(np.array, zip(*inputs, strict=True)))
        for name, inputs in rows.items()
    }, {
        "inputs": count,
        "top_1": float(top_1.mean()),
        "entropy": float(entropy.mean()),
    }


def _of_input(log_probs, top_k=None, top_p=None):
    """One line of `Draws`, from the log-probabilities `[N]`, falling."""
    probs = np.exp(log_probs)
    size = top_k or probs.size
    least = log_probs[size - 1]
    if top_p is not None:
        sums = np.cumsum(probs)
        size, most = (
            min(probs.size, 1 + int(np.searchsorted(sums, mass)))
            for mass in (top_p, top_p + _ROUNDING)
        )
        least = log_probs[most - 1]
    probs = probs[:size] / probs[:size].sum()
    mean = probs @ log_probs[:size]
    variance = probs @ np.square(log_probs[:size] - mean)
    return size, least, mean, variance


def check(head, classes, expected):
    """Compares draws with what they should be like.

    Args:
      head: a `heads.Head`.
      classes: `[n, S]`, of the first n inputs.
      expected: `Draws` of as many inputs or more.

    Returns:
      {"draws", "outside", "deviations", "right"}: how many there are, how many
      of classes that should not be drawn, and how far the mean log-probability
      is from the expected one, in its standard deviations.
    """
    count, num_samples = classes.shape
    log_probs = tf_hsm.hierarchical_softmax_log_prob(
        *head.parameters, classes, head.inputs[:count], head.tree
    ).numpy()
    outside = int((log_probs < expected.least[:count, None]).sum())
    error = (log_probs.mean(1) - expected.mean[:count]).sum()
    variance = expected.variance[:count].sum() / num_samples
    # The mean of draws from one class has no variance, but is rounded.
    deviations = float(error / np.sqrt(variance + 1e-6 * count))
    return {
        "draws": classes.size,
        "outside": outside,
        "deviations": deviations,
        "right": outside == 0 and abs(deviations) < _MOST_DEVIATIONS,
    }
