"""Label trees in float64 NumPy, written as the formulas read.

All is said by the paths of the classes, row by row: no groups, and no order.
"""

import numpy as np


def classes_below(tree):
    """`[rows, classes]`: 1 where a class is at or below a row, else 0."""
    below = np.zeros([tree.num_rows, tree.num_classes])
    for c in range(tree.num_classes):
        below[tree.path(c), c] = 1
    return below


def parents(tree):
    """`[rows]`: the row before each on the paths; -1 for the first."""
    above = np.full(tree.num_rows, -1)
    for c in range(tree.num_classes):
        path = tree.path(c)
        above[path[1:]] = path[:-1]
    return above


def probabilities(weights, biases, inputs):
    """`[B, rows]`, of each row if its parent is positive."""
    z = inputs @ weights.T + (0 if biases is None else biases)
    return 1 / (1 + np.exp(-z))


def label_log_probs(weights, biases, inputs, tree):
    """`[B, classes]`: the product over the rows that a class is below."""
    return np.log(probabilities(weights, biases, inputs)) @ classes_below(tree)


def loss(weights, biases, labels, inputs, tree, upstream):
    """Losses, and the gradients of sum(upstream * losses).

    Args:
      weights: `[rows, D]`.
      biases: `[rows]`, or None.
      labels: a list of the labels of each example.
      inputs: `[B, D]`.
      tree: a `tf_hsm.Tree`.
      upstream: `[B]`.

    Returns:
      losses `[B]`, dx `[B, D]`, dw `[rows, D]`, db `[rows]`; and which rows are
      in a group that an example visits, `[rows]` bool.
    """
    below, above = classes_below(tree), parents(tree)
    p = probabilities(weights, biases, inputs)
    positive = np.array([below[:, its].sum(axis=1) > 0 for its in labels])
    visited = np.where(above < 0, True, positive[:, above])
    terms = -np.where(positive, np.log(p), np.log1p(-p))
    losses = np.where(visited, terms, 0).sum(axis=1)
    dz = np.where(visited, p - positive, 0) * upstream[:, np.newaxis]
    return losses, dz @ weights, dz.T @ inputs, dz.sum(0), visited.any(0)
