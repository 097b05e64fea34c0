"""Huffman trees of any branching, by the two-queue method in whole rounds.

The two-queue method (van Leeuwen 1976) keeps the sorted leaves in one queue
and the merged nodes, whose weights come out sorted, in another; each merge
takes the `k` smallest items. A merge weighs at least `bound`, the sum of the
k smallest items of now. So all items up to `bound` leave before any merge
still to come, in an order that is known: one round merges all of them at once.

Few rounds are needed whatever the counts: of the items up to `bound` fewer
than k stay behind, each of at least `bound / k`, so that the next bound is at
least 1.5 times as large, and a round of zeros divides their number by k.
Total cost: one sort, then O(N).
"""

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.arrays import assemble
from tf_hsm.tree.builders.balanced import balanced
from tf_hsm.tree.builders.kind import Kind, parse_fanouts
from tf_hsm.tree.builders.named_counts import split_counts, with_names
from tf_hsm.tree.names import check_strs

_CLASS_BYTES = 70  # The most that a class takes, by tracemalloc.


def huffman(counts, branching, names=None):
    """Returns the arguments of `Tree` for `Tree.huffman` and `from_counts`."""
    counts, own_names = split_counts(counts, _CLASS_BYTES)
    branching = _checks.check_int("branching", branching, 2)
    if names is None:
        names = own_names
    elif own_names is not None:
        raise ValueError("names are the keys of counts already; leave them out")
    else:
        names = check_strs(names, counts.size, "class")
    return with_names(huffman_arrays(counts, branching), names, counts)


def huffman_arrays(counts, branching):
    """Returns the `TreeArrays` for counts that were checked."""
    num_classes = counts.size
    if num_classes == 1:
        return balanced(1, 2)
    branching = min(branching, num_classes)
    # Leaves of weight zero fill the first merge, which is the deepest group;
    # every other group, the root's among them, is then full.
    num_dummies = (1 - num_classes) % (branching - 1)
    # Ascending; of equal counts the class with the smaller number comes last.
    order = num_classes - 1 - np.argsort(counts[::-1], kind="stable")
    weights = np.zeros(num_dummies + num_classes, counts.dtype)
    np.take(counts, order, out=weights[num_dummies:])
    is_leaf = _merge_order(weights, branching)

    # Merges leave their queue in the order in which they were made, so the
    # items from last taken to first are the rows in breadth-first order.
    fanouts = np.full(is_leaf.size // branching, branching)
    fanouts[-1] -= num_dummies
    class_rows = np.empty(num_classes, np.int64)
    class_rows[order] = is_leaf.size - 1 - np.flatnonzero(is_leaf)[num_dummies:]
    return assemble(fanouts, ~is_leaf[::-1], class_rows)


def _merge_order(weights, k):
    """Says in which order leaves and merged nodes are merged.

    Args:
      weights: `[n]`, ascending, with `(n - 1) % (k - 1) == 0`.
      k: the number of items in a merge.

    Returns:
      `[k * merges]` booleans: whether the item is a leaf. Merge m takes the
      items `k * m` to `k * m + k - 1`; leaves come in the order of `weights`,
      merged nodes in the order of their making; ties put leaves first.
    """
    num_merges = (weights.size - 1) // (k - 1)
    is_leaf = np.empty(num_merges * k, bool)
    sums = np.empty(num_merges, weights.dtype)
    num_leaves = num_sums = made = 0  # taken of each queue; merges made
    while made < num_merges:
        leaves, nodes = weights[num_leaves:], sums[num_sums:made]
        smallest = np.sort(np.concatenate([leaves[:k], nodes[:k]]))[:k]
        bound = smallest.sum()
        items = leaves[: np.searchsorted(leaves, bound, "right")]
        from_leaves = np.ones(items.size, bool)
        ready = nodes[: np.searchsorted(nodes, bound, "right")]
        if ready.size:
            both = np.concatenate([items, ready])
            merged = np.argsort(both, kind="stable")
            from_leaves = merged < items.size
            items = both[merged]
        merges = items.size // k
        size = merges * k
        sums[made : made + merges] = items[:size].reshape(-1, k).sum(axis=1)
        is_leaf[made * k : made * k + size] = from_leaves[:size]
        taken = int(np.count_nonzero(from_leaves[:size]))
        num_leaves += taken
        num_sums += size - taken
        made += merges
    return is_leaf


HUFFMAN = Kind(
    "huffman",
    {
        "huffman, huffman:K": "the shortest paths for the counts, fanout K "
        "or 2",
        "huffman:pinned": "the same of fanout 2, with one row of weights for "
        "each two",
    },
    lambda tree_class, value, options: tree_class.huffman(
        options.needed_counts("huffman"),
        branching=2 if value == "pinned" else parse_fanouts(value or "2"),
        pinned=value == "pinned",
    ),
)
