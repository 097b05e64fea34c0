"""The rows with which a head has about the same probabilities in another tree.

The log-probability that the old model gives to the classes below a row of the
new tree is not linear in the inputs x, but a row of weights is. So the rows are
fitted, in three stages; each begins with the result of the one before.

1. The tangent at a point m. The old model scores class k with e_k, the sum of
   w_r - sum_s p(s | m) w_s over the rows r on its old path, where s are the
   rows in the group of r. With P(k | m), its probability at m, the slope of the
   log-probability of a set of classes K at m is

       sum_K P(k | m) e_k / sum_K P(k | m)

2. Ridge regression towards the tangent. For n inputs, whose mean is m, X is the
   matrix of x - m with a last column of ones for the bias, and T `[n, R]` has
   the log-probabilities of the rows. The weights W `[R, width + 1]` minimize

       |X W^T - T|^2 + lambda |W - tangent|^2         (no penalty of the bias)

3. Steps that lower the cross-entropy of the new model, with the old model's
   probabilities P as targets. In a group g, with the new softmax Q and
   P_g = the sum of P over g, the negative gradient is G = (P - P_g Q)^T X. The
   matrix X^T X / 2 bounds the second derivatives (Boehning, 1992), and so does
   c_g X^T X / 2, where c_g is the sum of P_g x^T (X^T X)^-1 x over the inputs,
   at most 1. So the step W += 2 / c_g G (X^T X + lambda)^-1 never makes it
   worse. Nesterov's momentum makes fewer steps do.

What all rows of a group have in common does not count. So slopes and targets
are taken less their mean over the group, weighted by the probabilities at m.
Without biases there is no last column, and X has x in place of x - m.
"""

import numpy as np
import tensorflow as tf

from tf_hsm.runtime import row_parts
from tf_hsm.tree.arrays import sum_to_root

_STEPS = 8  # of stage 3
# lambda, as a share of the mean eigenvalue of the inputs' part of X^T X.
_RIDGE = 0.01
_LEAST = 1e-250  # a probability; less has no logarithm to work with
_BLOCK = 1 << 22  # numbers that are worked on at once


def fit(head, tree, rows, inputs=None):
    """Returns weights `[n, width]` and biases `[n]` for rows of a new tree.

    Args:
      head: the old `TreeHead`.
      tree: the new tree, with the same classes.
      rows: `[n]` rows of the new tree, ascending; all rows of their groups.
      inputs: `[examples, width]` inputs of the head; None for the tangent where
        inputs are zero.

    Returns:
      Arrays float32, or float64 where the weights are; the biases are None for
      a head without biases.
    """
    width = head.weights.shape[1]
    if inputs is None:
        inputs = np.zeros([0, width])
    center = inputs.mean(0) if len(inputs) else np.zeros(width)
    probs = _class_probs(head, center[None])
    groups = _Groups(tree, rows)
    shares = groups.shares(_row_sums(tree, probs)[rows])
    fitted = _tangent(head, tree, rows, probs, shares)
    if head.biases is not None:
        fitted = np.append(fitted, np.log(shares).astype(fitted.dtype), 1)
    if len(inputs):
        probes = _Probes(head, tree, rows, inputs, center)
        fitted = _refine(_ridge(fitted, shares, probes, groups), probes, groups)
    if head.biases is None:
        return fitted, None
    weights, biases = fitted[:, :-1], fitted[:, -1]
    return weights, biases - weights @ center.astype(fitted.dtype)


class _Groups:
    """Sums over the groups of some rows of a tree."""

    def __init__(self, tree, rows):
        groups = tree.row_groups[rows]
        self._firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        self._sizes = np.diff(self._firsts, append=rows.size)

    def spread(self, values):
        """Returns `[n, ...]`, the value of each row's group."""
        return np.repeat(values, self._sizes, 0)

    def sums(self, values):
        """Returns the sum of values `[n, ...]` over each group, `[g, ...]`."""
        return np.add.reduceat(values, self._firsts)

    def shares(self, values):
        """Returns values `[n, ...]` divided by the sums of their groups."""
        return values / self.spread(self.sums(values))

    def less_means(self, values, shares):
        """Returns values `[n, ...]` less their means by shares `[n, 1]`."""
        return values - self.spread(self.sums(values * shares))

    def softmax(self, logits):
        """Returns the probabilities of rows in their groups."""
        highest = np.maximum.reduceat(logits, self._firsts)
        logits = logits - self.spread(highest)
        return self.shares(np.exp(logits, logits))


class _Probes:
    """The inputs X of the fit, and what the old model says of them.

    Attributes:
      width: of an input; X may have another column.
      lambda_: the ridge.
      inverse: of X^T X + lambda, where a bias has none.
    """

    def __init__(self, head, tree, rows, inputs, center):
        self._head, self._tree, self._rows = head, tree, rows
        self._inputs = self._design = inputs
        if head.biases is not None:
            self._design = np.append(
                inputs - center, np.ones([len(inputs), 1]), 1
            )
        products = self._design.T @ self._design
        self.width = width = inputs.shape[1]
        ridge = _RIDGE * np.trace(products[:width, :width]) / width
        self.lambda_ = ridge or 1.0
        products[range(width), range(width)] += self.lambda_
        self.inverse = np.linalg.inv(products)

    def blocks(self):
        """Yields blocks of X, and the probabilities P `[n, block]` of rows."""
        size = max(1, _BLOCK // self._tree.num_rows)
        for begin in range(0, len(self._inputs), size):
            block = slice(begin, begin + size)
            probs = _class_probs(self._head, self._inputs[block])
            sums = _row_sums(self._tree, probs)[self._rows]
            yield self._design[block], sums

    def leverages(self, block):
        """Returns x^T (X^T X + lambda)^-1 x for the rows of a block of X."""
        return np.einsum("ni,ij,nj->n", block, self.inverse, block)


def _ridge(tangent, shares, probes, groups):
    """Stage 2: returns the weights, with the biases in a last column."""
    dtype = tangent.dtype.type
    sums = tangent * dtype(probes.lambda_)
    sums[:, probes.width :] = 0
    for block, probs in probes.blocks():
        targets = groups.less_means(np.log(probs), shares).astype(dtype)
        sums += targets @ block.astype(dtype)
    return _times(sums, probes.inverse)


def _refine(weights, probes, groups):
    """Stage 3: returns better weights."""
    bounds = 0
    for block, probs in probes.blocks():
        bounds += groups.sums(probs) @ probes.leverages(block)
    scales = groups.spread(2 / np.clip(bounds, 1e-12, 1))
    scales = scales[:, None].astype(weights.dtype)
    ahead, momentum = weights, 1.0
    for _ in range(_STEPS):
        gradient = np.zeros_like(weights)
        for block, probs in probes.blocks():
            # Here float32 is enough, and takes half the time.
            block = block.astype(weights.dtype)
            rest = probs.astype(weights.dtype)
            in_group = groups.softmax(ahead @ block.T)
            in_group *= groups.spread(groups.sums(rest))
            rest -= in_group
            gradient += rest @ block
        gradient = _times(gradient, probes.inverse)
        gradient *= scales
        gradient += ahead
        before, weights = weights, gradient
        previous, momentum = momentum, (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = weights - before
        ahead *= (previous - 1) / momentum
        ahead += weights
    return weights


def _times(values, matrix):
    """Multiplies values `[n, D]` by a matrix `[D, D]`, in place."""
    matrix = matrix.astype(values.dtype)
    for block in row_parts.blocks(*values.shape):
        values[block] = values[block] @ matrix
    return values


def _class_probs(head, inputs):
    """Returns the probabilities of all classes, `[N, n]` float64."""
    inputs = tf.constant(inputs, _dtype(head))
    log_probs = head.log_probs(inputs).numpy().astype(np.float64)
    return np.maximum(np.exp(log_probs), _LEAST).T


def _row_sums(tree, values):
    """Returns the sum of class values `[N, n]` below each row, `[R, n]`."""
    sums = np.zeros([tree.num_rows, values.shape[1]])
    sums[tree.class_rows] = values
    sum_to_root(sums, tree._arrays, tree._levels)
    return sums


def _tangent(head, tree, rows, probs, shares):
    """Stage 1: the slopes `[n, width]` of rows `[n]` of the new tree.

    By the probabilities at m: `[N, 1]` of all classes, and as `shares` `[n, 1]`
    of the new rows in their groups.
    """
    old = head.tree
    all_groups = _Groups(old, np.arange(old.num_rows))
    groups = _Groups(tree, rows)
    old_shares = all_groups.shares(_row_sums(old, probs))
    sums = _row_sums(tree, probs)[rows]
    width = head.weights.shape[1]
    slopes = np.empty([rows.size, width], _dtype(head))
    for columns in row_parts.blocks(width, tree.num_rows):
        scores = all_groups.less_means(_rows_of(head, columns), old_shares)
        for begin, end in zip(old._levels[1:-1], old._levels[2:], strict=True):
            below = slice(old.group_offsets[begin], old.group_offsets[end])
            above = old.group_parents[old.row_groups[below]]
            scores[below] += scores[above]
        scores = _row_sums(tree, scores[old.class_rows] * probs)[rows] / sums
        slopes[:, columns] = groups.less_means(scores, shares)
    return slopes


def _rows_of(head, columns):
    """Returns columns of the weights of all rows of the old tree, float64."""
    with row_parts.beside(head.weights):
        values = head.weights[:, columns].numpy().astype(np.float64)
    return head.tree.expand_rows(values) if head.tree.pinned else values


def _dtype(head):
    return np.float64 if head.weights.dtype == "float64" else np.float32
