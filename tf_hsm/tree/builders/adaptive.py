"""Trees of frequency clusters: `adaptive`."""

import itertools

import numpy as np

from tf_hsm import _checks
from tf_hsm.cost.cluster_costs import check_tail
from tf_hsm.cost.cutoffs import cutoffs as best_cutoffs
from tf_hsm.tree.builders.balanced import balanced, two_level
from tf_hsm.tree.builders.kind import Flag, Kind, parse_integers
from tf_hsm.tree.builders.named_counts import split_counts, with_names
from tf_hsm.tree.builders.nodes import arrays_of_nodes

_CLASS_BYTES = 125  # The most that a class takes, by tracemalloc.


def adaptive(
    counts,
    *,
    num_clusters,
    batch,
    width,
    tail,
    min_head,
    cost_model,
    cutoffs,
):
    """Returns the arguments of `Tree` for `Tree.adaptive`."""
    counts, names = split_counts(counts, _CLASS_BYTES)
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
    shortlist, *_ = ends = [*cutoffs, counts.size]

    # Nodes: the root, the shortlist, the clusters, the rows of each tail.
    first_cluster = 1 + shortlist
    parents = [[-1], np.zeros(shortlist + len(cutoffs), np.int64)]
    classes = [[-1], order[:shortlist], np.full(len(cutoffs), -1)]
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
    arrays, _ = arrays_of_nodes(
        np.concatenate(parents), np.concatenate(classes)
    )
    return with_names(arrays, names, counts)


def by_frequency(counts):
    """Returns the classes `[N]`, the most frequent first.

    Where counts are equal, the smaller class comes first.
    """
    return counts.size - 1 - np.argsort(counts[::-1], kind="stable")[::-1]


def tail_arrays(tail, size):
    """Returns the `TreeArrays` of a tail of `size` classes."""
    if tail == "flat":
        return balanced(size, [size])
    if tail == "two_level":
        return two_level(size)
    return balanced(size, tail)


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


def _tail(text):
    return check_tail(int(text) if text.isdecimal() else text)


ADAPTIVE = Kind(
    "adaptive",
    {
        "adaptive": "frequency clusters, with the best cutoffs for the "
        "counts, --batch and --width",
        "adaptive:C1,C2,...": "with these cutoffs",
    },
    lambda tree_class, value, options: tree_class.adaptive(
        options.needed_counts("adaptive"),
        batch=options.batch,
        width=options.width,
        tail=options.flags["tail"],
        cost_model=options.cost_model,
        cutoffs=parse_integers("a cutoff", value) if value else None,
    ),
    flags=(
        Flag(
            "tail",
            _tail,
            default="flat",
            help="of adaptive: flat, two_level or a branching; %(default)s",
        ),
    ),
)
