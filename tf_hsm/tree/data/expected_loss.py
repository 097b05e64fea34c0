"""The expected loss of predicting a class from a feature of its context."""

import numpy as np

from tf_hsm.tree.arrays import row_groups
from tf_hsm.tree.data.reading import Reader

MAX_PAIRS = 1 << 21  # that are looked at
# Strengths of the prior, of which each tree gets the best.
_STRENGTHS = 4.0 ** np.arange(-1, 5)


def expected_loss(tree, labels, contexts, ordered, are_sets):
    """See `Tree.expected_loss`."""
    reader = Reader(tree.num_classes, ordered, lambda text: None, are_sets)
    reader.read(labels, contexts)
    pairs = reader.pairs()
    if pairs is None or not pairs.counts.size:
        raise ValueError("there are no contexts, from which to predict labels")
    sample = pairs.sampled(MAX_PAIRS, np.random.default_rng(0))
    nodes = paths(tree._arrays, tree._levels)
    classes = np.arange(tree.num_classes)
    (loss,) = leave_one_out_losses(nodes, sample, reader.counts, classes, [0])
    return float(loss)


def paths(arrays, levels):
    """Returns the rows above and at each leaf, `[N, L]`, -1 after the leaf."""
    groups = row_groups(arrays.group_offsets)
    above = arrays.group_parents[groups]
    depths = np.searchsorted(levels, groups, side="right") - 1
    result = np.full((arrays.class_rows.size, levels.size - 1), -1)
    classes, rows = np.arange(arrays.class_rows.size), arrays.class_rows
    while classes.size:
        result[classes, depths[rows]] = rows
        rows = above[rows]
        classes, rows = classes[rows >= 0], rows[rows >= 0]
    return result


def leave_one_out_losses(paths, pairs, counts, order, sizes):
    """Returns the mean losses of smoothed bigram models on trees, in nats.

    A model has no parameters to train. At each group on a class's path it
    predicts the row r from a feature f by counts, smoothed towards the share
    p(r) of the row in its group,

        P(r | f) = (n(f, r) + a p(r)) / (n(f, parent of r) + a),

    where n(f, r) counts the pairs of f and a class at or below r. All other
    pairs predict a pair (leave-one-out: both n are less by one); the strength a
    is the best of six. The loss is low if the classes below a row occur after
    the same features.

    A logarithm depends on f by n(f, r) alone, so that it is taken once for all
    features with the same count. The counts at leaves are the same in all
    trees.

    Args:
      paths: `[N, L]`, the nodes on the path of each class, none of which is on
        two levels, and -1 after the leaf.
      pairs: the `Pairs`.
      counts: `[N]`, how often each class occurs.
      order: classes.
      sizes: `[T]`, ascending. In tree t the classes `order[:sizes[t]]` are
        leaves of the root's group, and all others have their paths.

    Returns:
      `[T]` float64.
    """
    counts = np.maximum(counts, 0.5)
    depths = np.count_nonzero(paths >= 0, axis=1)
    # The first tree in which a class is a leaf of the root's group.
    firsts = np.full(counts.size, len(sizes))
    for tree, size in reversed([*enumerate(sizes)]):
        firsts[order[:size]] = tree
    root = int(paths.max()) + 1
    parents = np.full(root + 1, root)
    masses = np.zeros((len(sizes), root + 1))  # of the classes below a node
    masses[:, root] = counts.sum()
    last = np.full(counts.size, root)  # the node above each leaf
    for level in range(paths.shape[1] - 1):
        inner = np.flatnonzero(depths > level + 1)
        nodes, mass, first = paths[inner, level], counts[inner], firsts[inner]
        parents[nodes] = last[inner]
        last[inner] = nodes
        for tree, sums in enumerate(masses):
            sums += np.bincount(nodes, mass * (first > tree), root + 1)

    totals = np.bincount(pairs.features, pairs.counts).astype(np.int64)
    _, found, numbers = _histogram(np.zeros_like(totals), totals)
    log_sums = np.tile(-_log_sums(found, numbers, 1), (len(sizes), 1))
    classes, found, numbers = _histogram(pairs.classes, pairs.counts)
    for tree, mass in enumerate(masses):
        shares = counts / mass[np.where(firsts <= tree, root, last)]
        log_sums[tree] += _log_sums(found, numbers, shares[classes])

    # Within a feature, pairs below a node stand side by side.
    places = np.empty(counts.size, np.int64)
    places[np.lexsort(paths.T[::-1])] = np.arange(counts.size)
    by_place = np.argsort(pairs.features * counts.size + places[pairs.classes])
    features, classes, weights = (
        array[by_place]
        for array in (pairs.features, pairs.classes, pairs.counts)
    )
    for level in range(paths.shape[1] - 1):
        inner = depths[classes] > level + 1
        features, classes, weights = (
            array[inner] for array in (features, classes, weights)
        )
        if not classes.size:
            break
        nodes, first = paths[classes, level], firsts[classes]
        is_start = np.diff(features, prepend=-1) != 0
        is_start |= np.diff(nodes, prepend=-1) != 0
        starts = np.flatnonzero(is_start)
        nodes_of_runs = nodes[starts]
        for tree, mass in enumerate(masses):
            sums = np.add.reduceat(weights * (first > tree), starts)
            nodes, found, numbers = _histogram(nodes_of_runs, sums)
            shares = mass[nodes] / mass[parents[nodes]]
            log_sums[tree] += _log_sums(found, numbers, shares)
            log_sums[tree] -= _log_sums(found, numbers, 1)
    return -log_sums.max(axis=1) / pairs.counts.sum()


def _histogram(nodes, counts):
    """Returns the distinct pairs of a node and a count, and their numbers.

    `counts` are integers; zeros are left out.
    """
    size = int(counts.max()) + 1
    keys = (nodes * size + counts)[counts > 0]
    keys, numbers = np.unique(keys, return_counts=True)
    return keys // size, keys % size, numbers


def _log_sums(counts, numbers, shares):
    """Returns the sum of `counts * numbers log(counts - 1 + a shares)`, `[6]`.

    It has an entry for each strength a.
    """
    weights = counts * numbers
    return np.array(
        [weights @ np.log(counts - 1 + a * shares) for a in _STRENGTHS]
    )
