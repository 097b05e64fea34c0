"""Probabilities of the rows and groups of a tree, from counts of labels.

`arrays` are the `TreeArrays` throughout, and `levels` what `level_starts`
returns for them.
"""

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.arrays import groups_of, sum_groups_to_root, sum_to_root

_CHUNK = 1 << 22  # classes
_LEAST_SHARE = 1e-290  # of the most frequent class, whose logarithm is finite


def row_masses(arrays, levels, counts):
    """Returns the probability that a label's path has each row, `[R]`."""
    if counts is None:
        shares = np.ones(arrays.class_rows.size)
    else:
        counts = _check_counts(counts, arrays)
        shares = counts / counts.max()
    masses = np.empty(arrays.group_offsets[-1])
    masses[arrays.class_rows] = shares / shares.sum()
    sum_to_root(masses, arrays, levels)
    return np.minimum(masses, 1, out=masses)  # sums are rounded


def passing(arrays, levels, counts):
    """Returns the probability that a label passes each group, `[G]`.

    No array has an entry for each row or class: there may be many more rows and
    classes than groups.
    """
    offsets, parents, class_rows = arrays
    above = groups_of(offsets, parents)
    if counts is None:
        inner = np.bincount(above[1:], minlength=parents.size)
        masses = (np.diff(offsets) - inner) / class_rows.size
    else:
        counts = _check_counts(counts, arrays)
        masses, largest = np.zeros(parents.size), counts.max()
        for rows, found in leaf_counts(arrays, counts):
            np.add.at(masses, groups_of(offsets, rows), found / largest)
        masses /= masses.sum()
    sum_groups_to_root(masses, above, levels)
    return np.minimum(masses, 1, out=masses)  # sums are rounded


def _check_counts(counts, arrays):
    """Returns counts `[N]`, of which one is not zero."""
    counts = _checks.check_counts(counts, arrays.class_rows.size)
    if not counts.any():
        raise ValueError("all counts are zero; no class ever occurs")
    return counts


def leaf_counts(arrays, counts):
    """Yields the leaf rows of some classes at a time, and their counts."""
    for first in range(0, counts.size, _CHUNK):
        classes = slice(first, first + _CHUNK)
        yield arrays.class_rows[classes], counts[classes]


def group_masses(arrays, masses):
    """Returns the probability that a label passes each group, `[G]`."""
    result = np.ones(arrays.group_parents.size)
    result[1:] = masses[arrays.group_parents[1:]]
    return result


def row_shares(tree, counts):
    """See `Tree.row_shares`."""
    masses = row_masses(tree._arrays, tree._levels, counts)
    sums = np.add.reduceat(masses, tree.group_offsets[:-1])
    even = 1 / np.diff(tree.group_offsets)[tree.row_groups]
    totals = sums[tree.row_groups]
    return np.divide(masses, totals, out=even, where=totals > 0)


def log_prior(tree, counts):
    """See `Tree.log_prior`."""
    counts = _checks.check_counts(counts, tree.num_classes)
    seen = counts[counts > 0]
    if seen.size:
        # Not so small that their shares would be zero.
        least = max(0.5 * seen.min(), seen.max() * _LEAST_SHARE)
        counts = np.maximum(counts, least)
    else:
        counts = np.ones(counts.size)
    masses = row_masses(tree._arrays, tree._levels, counts)
    above = group_masses(tree._arrays, masses)[tree.row_groups]
    return np.log(masses) - np.log(above)
