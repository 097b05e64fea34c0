"""The rows with which a head has about the same probabilities in another tree.

The log-probability that the old model gives to the classes below a row of the
new tree is not linear in the inputs x, but a row of weights is. So each row is
a linear fit of that function:

1. The tangent at a point c. The old model scores class k with e_k, the sum of
   w_r - sum_s p(s | c) w_s over the rows r on its old path, where s are the
   rows in the group of r. With P(k | c), its probability at c, the slope of the
   log-probability of a set of classes K at c is

       sum_K P(k | c) e_k / sum_K P(k | c)

2. With inputs X `[n, width]`, ridge regression towards that tangent. The
   targets T `[n, R]` are the log-probabilities of the rows; for the mean m of
   the inputs and X' = X - m, the weights W `[R, width]` minimize

       |X' W^T - (T - mean T)|^2 + lambda |W - tangent|^2

   and the biases are mean T - W m. Without biases X' is X, and mean T is 0.

What all rows of a group have in common does not count. So slopes and targets
are taken less their mean over each group, weighted by the probabilities at c.
"""

import numpy as np
import tensorflow as tf

from tf_hsm.runtime import row_parts
from tf_hsm.tree.arrays import sum_to_root

# lambda, as a share of the mean eigenvalue of X'^T X'.
_RIDGE = 0.01
_LEAST = 1e-250  # a probability; less has no logarithm to work with
_BLOCK = 1 << 22  # numbers that are worked on at once


def fit(head, tree, rows, inputs=None):
    """Returns weights `[n, width]` and biases `[n]` for rows of a new tree.

    Args:
      head: the old `TreeHead`.
      tree: the new tree, with the same classes.
      rows: `[n]` rows of the new tree; all rows of each of their groups.
      inputs: `[examples, width]` inputs of the head; None for the tangent where
        inputs are zero.

    Returns:
      Arrays float32, or float64 where the weights are; the biases are None for
      a head without biases.
    """
    dtype = np.float64 if head.weights.dtype == "float64" else np.float32
    if inputs is None:
        inputs = np.zeros([0, head.weights.shape[1]])
    inputs = inputs.astype(np.float64)
    center = inputs.mean(0) if len(inputs) else np.zeros(inputs.shape[1])
    at_center = _class_probs(head, center[None], dtype)
    shares = _shares(tree, _row_sums(tree, at_center))
    weights = _tangent(head, tree, at_center, shares, dtype)[rows]
    biases = np.log(shares[rows])
    if len(inputs):
        if head.biases is not None:
            inputs = inputs - center
        # The normal equations: W (X'^T X' + lambda I) = T^T X' + lambda tangent
        products = inputs.T @ inputs
        ridge = _RIDGE * np.trace(products) / len(products) or 1.0
        products += ridge * np.eye(len(products))
        weights *= dtype(ridge)
        biases = np.zeros(rows.size)
        size = max(1, _BLOCK // tree.num_rows)
        for begin in range(0, len(inputs), size):
            block = inputs[begin : begin + size]
            given = block if head.biases is None else block + center
            probs = _class_probs(head, given, dtype)
            targets = np.log(_row_sums(tree, probs))
            targets = _less_group_means(tree, targets, shares)[rows]
            weights += (targets @ block).astype(dtype)
            biases += targets.sum(1)
        inverse = np.linalg.inv(products).astype(dtype)
        for block in row_parts.blocks(rows.size, len(inverse)):
            weights[block] = weights[block] @ inverse
        biases = biases / len(inputs) - weights @ center
    return weights, None if head.biases is None else biases.astype(dtype)


def _class_probs(head, inputs, dtype):
    """Returns the probabilities of all classes, `[N, n]` float64."""
    log_probs = head.log_probs(tf.constant(inputs, dtype)).numpy()
    return np.maximum(np.exp(log_probs.astype(np.float64)), _LEAST).T


def _row_sums(tree, probs):
    """Returns `[R, n]`, the probability of the classes below each row."""
    sums = np.zeros([tree.num_rows, probs.shape[1]])
    sums[tree.class_rows] = probs
    sum_to_root(sums, tree._arrays, tree._levels)
    return sums


def _shares(tree, sums):
    """Returns the probability of each row in its group, `[R]`."""
    sums = sums[:, 0]
    totals = np.add.reduceat(sums, tree.group_offsets[:-1])
    return sums / totals[tree.row_groups]


def _less_group_means(tree, values, shares):
    """Returns values `[R, n]` less the mean of each group, by shares."""
    means = np.add.reduceat(values * shares[:, None], tree.group_offsets[:-1])
    return values - means[tree.row_groups]


def _tangent(head, tree, at_center, shares, dtype):
    """Returns the slopes `[R, width]` of the new rows: step 1 above."""
    old = head.tree
    old_shares = _shares(old, _row_sums(old, at_center))
    sums = _row_sums(tree, at_center)
    width = head.weights.shape[1]
    slopes = np.empty([tree.num_rows, width], dtype)
    for columns in row_parts.blocks(width, tree.num_rows):
        scores = _less_group_means(old, _rows_of(head, columns), old_shares)
        for begin, end in zip(old._levels[1:-1], old._levels[2:], strict=True):
            below = slice(old.group_offsets[begin], old.group_offsets[end])
            above = old.group_parents[old.row_groups[below]]
            scores[below] += scores[above]
        scores = _row_sums(tree, scores[old.class_rows] * at_center) / sums
        slopes[:, columns] = _less_group_means(tree, scores, shares)
    return slopes


def _rows_of(head, columns):
    """Returns columns of the weights of all rows of the old tree, float64."""
    with row_parts.beside(head.weights):
        values = head.weights[:, columns].numpy().astype(np.float64)
    return head.tree.expand_rows(values) if head.tree.pinned else values
