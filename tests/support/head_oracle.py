"""The losses of heads by all of their rows, in float64.

The trees of a head are one list of rows here, in dense matrices, and
TensorFlow differentiates.
"""

import itertools

import numpy as np
import tensorflow as tf

from tests.support import oracle


class Rows:
    """The rows of a head's trees.

    Attributes:
      above: `[R, R]`, 1 where the second row is on the path of the first one.
      same: `[R, R]`, 1 where two rows are in one group.
      parents: `[R]`, the row above each; -1 for none.
      class_rows: `[N]`.
    """

    def __init__(self, head):
        groups, parents, self.class_rows = _arrays(head)
        self.parents = parents[groups]
        self.above = np.eye(len(groups))
        for row, parent in enumerate(self.parents):
            if parent >= 0:
                self.above[row] += self.above[parent]
        self.same = np.float64(groups[:, np.newaxis] == groups)

    def shares(self, prior):
        """The share of each row in its group, by counts of classes or None."""
        masses = np.ones(len(self.above))
        if prior is not None:
            masses = self.above[self.class_rows].T @ prior
        sums = self.same @ masses
        # A group without counts is even; no label is below it.
        even = 1 / self.same.sum(1)
        return np.where(sums > 0, masses / np.maximum(sums, 1e-300), even)


def _arrays(head):
    """Returns the group of each row, the row above each group, class rows."""
    if not hasattr(head, "clusters"):
        tree = head.tree
        return tree.row_groups, tree.group_parents, tree.class_rows
    tails = head.clusters.tail_trees
    first = oracle.OneGroup(head.head_kernel.shape[0])
    shortlist = first.num_classes - len(tails)
    groups, parents = [np.zeros(first.num_classes, int)], [[-1]]
    class_rows = [np.arange(shortlist)]
    for number, tree in enumerate(tails):
        begin, count = sum(map(len, groups)), sum(map(len, parents))
        groups.append(tree.row_groups + count)
        its = tree.group_parents
        parents.append(np.where(its < 0, shortlist + number, its + begin))
        class_rows.append(tree.class_rows + begin)
    class_rows = np.concatenate(class_rows)
    if head.clusters.order is not None:
        class_rows = class_rows[head.clusters.order.class_rows]
    return np.concatenate(groups), np.concatenate(parents), class_rows


def logits(head, x):
    """The logits `[B, R]` of all rows, capped as the head caps them."""
    found = []
    projections = [None, *getattr(head, "projections", [])]
    for part, projection in itertools.zip_longest(
        head._tree_heads(), projections
    ):
        inputs = x if projection is None else tf.matmul(x, _wide(projection))
        z = tf.matmul(inputs, _wide(part.weights), transpose_b=True)
        if part.biases is not None:
            z += _wide(part.biases)
        if part.tree.pinned:
            z = tf.reshape(tf.stack([z, 0 * z], -1), [len(z), -1])
        found.append(z)
    z = tf.concat(found, 1)
    if getattr(head, "plan", None) is not None:
        layout = head.plan.layout
        rows = np.concatenate([layout.top_rows, layout.row_order])
        z = tf.gather(z, np.argsort(rows), axis=1)
    cap = getattr(head, "logit_soft_cap", None)
    return z if cap is None else cap * tf.tanh(z / cap)


def _wide(variable):
    """A variable in float64; gradients flow to the variable."""
    return tf.cast(tf.convert_to_tensor(variable), "float64")


def losses(head, x, labels, weights=None, plain=False):
    """The losses `[B]` of inputs, by the formulas.

    Args:
      head: a layer.
      x: `[B, width]`, hidden vectors in float64.
      labels: `[B, M]`, -1 for none.
      weights: `[B, M]`, of labels; None: their mean.
      plain: whether to leave out what only training has.
    """
    rows, z = Rows(head), logits(head, x)
    if type(head).__name__ == "LabelTree":
        paths = rows.above[rows.class_rows[labels]]
        is_positive = (paths * (labels >= 0)[..., np.newaxis]).any(1)
        visited = (rows.parents < 0) | is_positive[:, rows.parents]
        terms = tf.nn.softplus(np.where(is_positive, -1.0, 1.0) * z)
        return tf.reduce_sum(tf.where(visited, terms, 0.0), 1)
    of_rows = row_losses(head, rows, z, plain)
    its = labels if head.node_labels else rows.class_rows[labels]
    each = tf.gather(of_rows, np.where(labels < 0, 0, its), batch_dims=1)
    if head.class_weights is not None and not plain:
        each *= head.class_weights[labels]
    counts = np.float64(labels >= 0)
    if weights is None:
        weights = 1 / np.maximum(counts.sum(1, keepdims=True), 1)
    return tf.reduce_sum(each * counts * weights, 1)


def row_losses(head, rows, z, plain):
    """The losses `[B, R]` of all rows as labels."""
    # The logits are small.
    sums = tf.math.log(tf.exp(z) @ rows.same)
    share = 0.0 if plain else head.label_smoothing
    spread = rows.above @ (rows.same * rows.shares(head.smoothing_prior))
    targets = (1 - share) * rows.above + share * spread
    found = -(z - sums) @ targets.T
    if plain:
        return found
    if getattr(head, "z_loss", 0):
        found += head.z_loss * sums**2
    if head.focal_gamma:
        found *= (1 - tf.exp(-found)) ** head.focal_gamma
    return found


def log_probs(head, x, temperature=1.0):
    """The log-probabilities `[B, R]` of all rows."""
    rows, z = Rows(head), logits(head, x) / temperature
    if type(head).__name__ == "LabelTree":
        return -tf.nn.softplus(-z) @ rows.above.T
    return -row_losses(head, rows, z, plain=True)


def slopes(head, inputs, losses_of):
    """Losses, and the gradients of a weighted sum by inputs and weights.

    Args:
      head: a layer whose weights have gradients.
      inputs: a tensor.
      losses_of: a function from the inputs to losses.
    """
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        losses = losses_of(inputs)
        upstream = np.random.default_rng(2).normal(size=losses.shape)
        total = tf.reduce_sum(tf.cast(upstream, losses.dtype) * losses)
    sources = [inputs, *(v.value for v in head.trainable_weights)]
    return losses, tape.gradient(total, sources)
