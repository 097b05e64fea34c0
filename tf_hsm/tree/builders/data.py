"""Trees that are made from training data: `from_data`."""

import math

import numpy as np

from tf_hsm import _checks
from tf_hsm.cost import expected
from tf_hsm.tree.arrays import (
    assemble,
    groups_of,
    level_starts,
    sum_groups_to_root,
)
from tf_hsm.tree.builders.adaptive import by_frequency
from tf_hsm.tree.builders.balanced import balanced
from tf_hsm.tree.builders.embeddings import arranged, points_of
from tf_hsm.tree.builders.huffman import huffman_arrays
from tf_hsm.tree.builders.kind import Kind
from tf_hsm.tree.builders.named_counts import with_names
from tf_hsm.tree.builders.progress import progress
from tf_hsm.tree.data.expected_loss import leave_one_out_losses, paths
from tf_hsm.tree.data.pair_vectors import MAX_FEATURES, class_vectors
from tf_hsm.tree.data.reading import Reader
from tf_hsm.tree.memory import check_fits
from tf_hsm.tree.names import check_strs

_LARGEST_FANOUT = 256
_WIDTH = 64  # of the vectors
_ROUNDS, _FIRST_ROUNDS = 50, 2  # of clustering
_OF_A_CLASS = 256  # labels whose contexts count
_MAX_PAIRS = 1 << 19  # for the choice of a shape
_CLASS_BYTES = 88 + 8 * _WIDTH
# What is worth as much as a nat of the expected loss: see `from_data`.
# For a level, with ten examples of each class, and for the log of the time; by
# whether training is long.
_NATS = {False: (0.2, 0.1), True: (0.3, 0.01)}
_BATCH, _VECTOR_WIDTH = 1024, 512  # for the time


def from_data(
    labels,
    contexts,
    *,
    num_classes,
    names,
    ordered,
    several_labels,
    long_training,
    seed,
    verbose,
):
    """Returns the arguments of `Tree` for `Tree.from_data`."""
    if num_classes is not None:
        num_classes = _checks.check_int("num_classes", num_classes, 1)
        check_fits(f"num_classes is {num_classes}", num_classes, _CLASS_BYTES)
    seed = _checks.check_int("seed", seed, 0)
    report = progress("from_data", verbose)
    # Data may be made by the numbers of `default_rng(seed)`: these are others.
    (of_sample,) = np.random.SeedSequence(seed).spawn(1)
    rng = np.random.default_rng(of_sample)
    reader = Reader(
        num_classes, ordered, report, several_labels, (_OF_A_CLASS, rng)
    )
    reader.read(labels, contexts)
    counts, pairs = reader.counts, reader.pairs()
    if names is not None:
        names = check_strs(names, counts.size, "class")
    has_no_clusters = counts.size <= _LARGEST_FANOUT
    if has_no_clusters or pairs is None or not pairs.counts.size:
        arrays = huffman_arrays(counts, _LARGEST_FANOUT)
        return with_names(arrays, names, counts)
    report("making vectors")
    pairs = pairs.most_frequent(MAX_FEATURES)
    vectors = class_vectors(pairs, counts.size, _WIDTH, seed)
    points = points_of(vectors, "cosine")
    del vectors
    sample = pairs.sampled(_MAX_PAIRS, rng), reader.sampled_counts
    del pairs
    report("choosing a shape")
    size = _best_root_leaves(
        counts, points, sample, _NATS[bool(long_training)], seed, report
    )
    order = by_frequency(counts)
    rest = np.sort(order[size:])
    below = _below(counts.size, rest.size)
    below = arranged(points[rest], below, seed, _ROUNDS, report)
    arrays = _grafted(order[:size], rest, below)
    return with_names(arrays, names, counts)


def _best_root_leaves(counts, points, sample, nats, seed, report):
    """Returns how many classes are leaves of the root's group at least cost.

    `sample` has pairs, and how often each class occurs among them; `nats` are
    the costs of a level and of a log of the time.
    """
    # Clusters of all classes, with which each number is tried.
    arrays = arranged(points, _below(counts.size), seed, _FIRST_ROUNDS, report)
    nodes = paths(arrays, level_starts(arrays))
    order = by_frequency(counts)
    sizes = _sizes(counts.size)
    report("trying numbers of classes in the root's group")
    costs = leave_one_out_losses(nodes, *sample, order, sizes)
    per_class = max(counts.sum() / counts.size, 1)
    per_level, per_log_time = nats
    per_level *= math.log10(per_class)
    depths = np.count_nonzero(nodes >= 0, axis=1)
    # The time is found for classes that are in any cluster.
    ranked_counts = counts[order]
    shuffled = np.random.default_rng(0).permutation(order.size)
    for i, size in enumerate(sizes):
        depths[order[:size]] = 1
        costs[i] += per_level * np.average(depths, weights=counts)
        milliseconds = _milliseconds(ranked_counts, shuffled, size)
        costs[i] += per_log_time * math.log(milliseconds)
    return sizes[int(np.argmin(costs))]


def _sizes(num_classes):
    """The numbers of classes in the root's group that are tried."""
    sizes = [0, *(1 << np.arange(4, 12)).tolist()]
    return [size for size in sizes if 4 * size <= num_classes]


def _milliseconds(counts, shuffled, size):
    """Predicts the time of a step where `size` classes are in the root's group.

    The `counts [N]` descend. `shuffled [N]` is the order in which the other
    classes stand in the clusters.
    """
    counts_below = counts[shuffled[shuffled >= size]]
    below = _below(counts.size, counts_below.size)
    offsets = below.group_offsets
    groups = groups_of(offsets, below.class_rows)
    masses = np.bincount(groups, counts_below, offsets.size - 1)
    above = groups_of(offsets, below.group_parents)
    sum_groups_to_root(masses, above, level_starts(below))
    masses[0] = counts.sum()
    fanouts = np.diff(offsets)
    fanouts[0] += size
    return expected.expected_cost(
        fanouts, masses / masses[0], _BATCH, _VECTOR_WIDTH, None
    ).milliseconds


def _below(num_classes, size=None):
    """Returns the balanced tree of clusters of `size` classes, by default all.

    `num_classes`, N, sets the number of clusters.
    """
    size = num_classes if size is None else size
    clusters = min(_LARGEST_FANOUT, round(2 * math.sqrt(num_classes)))
    if size <= clusters:
        return balanced(size, [size])
    members = -(-size // clusters)
    levels = 1
    while _LARGEST_FANOUT**levels < members:
        levels += 1
    fanout = math.ceil(members ** (1 / levels))
    fanout += fanout**levels < members  # The root of a power is rounded.
    return balanced(size, [clusters, *[fanout] * levels])


def _grafted(top, rest, below):
    """Adds the leaves of classes `top` before the first group of `below`.

    The classes of `below` become `rest`. Returns `TreeArrays`.
    """
    class_rows = np.empty(top.size + rest.size, np.int64)
    class_rows[top] = np.arange(top.size)
    class_rows[rest] = top.size + below.class_rows
    is_inner = np.ones(top.size + below.group_offsets[-1], bool)
    is_inner[class_rows] = False
    fanouts = np.diff(below.group_offsets)
    fanouts[0] += top.size
    return assemble(fanouts, is_inner, class_rows)


DATA = Kind(
    "data",
    {"data": "related classes together, from --data"},
    lambda tree_class, value, options: tree_class.from_data(
        *options.needed_data("data"),
        num_classes=options.num_classes,
        seed=options.flags["seed"],
    ),
    reports=True,
)
