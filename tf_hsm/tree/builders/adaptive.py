"""Trees of frequency clusters: `adaptive`."""

import itertools

import numpy as np

from tf_hsm import _checks
from tf_hsm.cost.clusters import check_tail
from tf_hsm.cost.cutoffs import cutoffs as best_cutoffs
from tf_hsm.tree.builders import balanced as builders_balanced
from tf_hsm.tree.builders import nodes


def adaptive(
    counts, num_clusters, batch, width, tail, min_head, cost_model, cutoffs
):
    """See `Tree.adaptive`."""
    counts = _checks.check_counts(counts)
    tail = check_tail(tail)
    order = by_frequency(counts)
    if cutoffs is None:
        cutoffs = best_cutoffs(
            counts[order],
            num_clusters,
            batch=batch,
            width=width,
            tail=tail,
            min_head=min_head,
            cost_model=cost_model,
        )
    else:
        cutoffs = check_cutoffs(cutoffs, counts.size)
    head, *_ = ends = [*cutoffs, counts.size]

    # Nodes: the root, the head's classes, the clusters, the rows of each tail.
    first_cluster = 1 + head
    parents = [[-1], np.zeros(head + len(cutoffs), np.int64)]
    classes = [[-1], order[:head], np.full(len(cutoffs), -1)]
    num_nodes = first_cluster + len(cutoffs)
    for number, (begin, end) in enumerate(itertools.pairwise(ends)):
        arrays = tail_arrays(tail, end - begin)
        above = arrays.group_parents + num_nodes
        above[0] = first_cluster + number
        parents.append(np.repeat(above, np.diff(arrays.group_offsets)))
        row_classes = np.full(arrays.group_offsets[-1], -1)
        row_classes[arrays.class_rows] = order[begin:end]
        classes.append(row_classes)
        num_nodes += row_classes.size
    return nodes.from_parents(np.concatenate(parents), np.concatenate(classes))


def by_frequency(counts):
    """Returns the classes `[N]`, the most frequent first.

    Of equal counts the smaller class comes first.
    """
    return counts.size - 1 - np.argsort(counts[::-1], kind="stable")[::-1]


def tail_arrays(tail, size):
    """Returns the `TreeArrays` of a tail of `size` classes."""
    if tail == "flat":
        return builders_balanced.balanced(size, [size])
    if tail == "two_level":
        return builders_balanced.two_level(size)
    return builders_balanced.balanced(size, tail)


def check_cutoffs(cutoffs, num_classes):
    """Returns cutoffs as a list of ints; ValueError unless they ascend."""
    cutoffs = _checks.check_integers("cutoffs", cutoffs).tolist()
    for number, (before, cutoff) in enumerate(
        itertools.pairwise([0, *cutoffs])
    ):
        if not before < cutoff < num_classes:
            raise ValueError(
                f"cutoffs[{number}] is {cutoff}; it must be above "
                f"{before} and below the {num_classes} classes"
            )
    return cutoffs
