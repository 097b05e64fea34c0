"""Statistics of each level of a tree, made once per tree."""

import collections
import weakref

import numpy as np

Levels = collections.namedtuple(
    "Levels",
    [
        "offsets",  # [L] int64, the first row of each level
        "num_groups",  # [L] ints
        "narrowest",  # [L] ints, the smallest fanout
        "widest",  # [L] ints, the largest fanout
        "shortest_path",  # int, the rows on the shortest path
    ],
)

_cache = weakref.WeakKeyDictionary()


def tree_levels(tree):
    """Returns the `Levels` of `tree`, O(L) in size."""
    levels = _cache.get(tree)
    if levels is None:
        levels = _cache[tree] = _levels(tree)
    return levels


def _levels(tree):
    group_starts = tree._levels[:-1]
    num_groups = np.diff(tree._levels)
    offsets = tree.group_offsets[group_starts]
    num_rows = np.diff(offsets, append=tree.num_rows)
    has_leaf = num_rows > np.append(num_groups[1:], 0)
    fanouts = np.diff(tree.group_offsets)
    return Levels(
        offsets=offsets,
        num_groups=num_groups.tolist(),
        narrowest=np.minimum.reduceat(fanouts, group_starts).tolist(),
        widest=np.maximum.reduceat(fanouts, group_starts).tolist(),
        shortest_path=int(np.argmax(has_leaf)) + 1,
    )
