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
    return leave_one_out_loss(
        paths(tree._arrays, tree._levels), sample, reader.counts
    )


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


def leave_one_out_loss(paths, pairs, counts):
    """Returns the mean loss of a smoothed bigram model on a tree, in nats.

    The model has no parameters to train. At each group on a class's path it
    predicts the row r from a feature f by counts, smoothed towards the share
    p(r) of the row in its group,

        P(r | f) = (n(f, r) + a p(r)) / (n(f, parent of r) + a),

    where n(f, r) counts the pairs of f and a class at or below r. All other
    pairs predict a pair (leave-one-out: both n are less by one); the strength a
    is the best of six. The loss is low if the classes below a row occur after
    the same features.

    `paths [N, L]` are the nodes on the path of each class, none of which is on
    two levels, and -1 after the leaf. Class c occurs `counts[c]` times.
    """
    counts = np.maximum(counts, 0.5)
    num_nodes = int(paths.max()) + 1
    losses = np.zeros(_STRENGTHS.size)
    # Within a feature, pairs at or below a node stand side by side.
    ranks = np.empty(len(paths), np.int64)
    ranks[np.lexsort(paths.T[::-1])] = np.arange(len(paths))
    order = np.argsort(pairs.features * ranks.size + ranks[pairs.classes])
    features, classes, weights = (
        array[order] for array in (pairs.features, pairs.classes, pairs.counts)
    )
    masses_above = np.full(counts.size, counts.sum())
    parents_of = np.zeros(num_nodes + 1, np.int64)
    for level in range(paths.shape[1]):
        nodes = paths[:, level]
        here = nodes[classes] >= 0
        features, classes, weights = (
            array[here] for array in (features, classes, weights)
        )
        if not classes.size:
            break
        masses = np.bincount(nodes + 1, counts, num_nodes + 1)[nodes + 1]
        shares = np.zeros(num_nodes)
        shares[nodes[nodes >= 0]] = (masses / masses_above)[nodes >= 0]
        masses_above = masses
        parents = paths[:, level - 1] if level else np.zeros_like(nodes)
        parents_of[nodes] = parents
        starts, sums, _ = _sums_of_runs(features, nodes[classes], weights)
        of_features, of_nodes = features[starts], nodes[classes[starts]]
        _, totals, sizes = _sums_of_runs(
            of_features, parents_of[of_nodes], sums
        )
        totals = np.repeat(totals, sizes)
        for i, strength in enumerate(_STRENGTHS):
            probabilities = (sums - 1 + strength * shares[of_nodes]) / (
                totals - 1 + strength
            )
            losses[i] -= sums @ np.log(probabilities)
    return float(losses.min() / pairs.counts.sum())


def _sums_of_runs(features, nodes, weights):
    """Returns where runs of one feature and node begin, their sums, sizes."""
    is_first = np.ones(features.size, bool)
    is_first[1:] = (np.diff(features) != 0) | (np.diff(nodes) != 0)
    starts = np.flatnonzero(is_first)
    sums = np.add.reduceat(weights.astype(np.float64), starts)
    return starts, sums, np.diff(starts, append=features.size)
