"""The text of `Tree.summary`."""

import numpy as np

_SHOWN_LEVELS = 8


def summarize(tree):
    """Returns the text, but for the cost."""
    levels, num_weights = tree._levels, tree.num_weight_rows
    fanouts = np.diff(tree.group_offsets)
    # The leaves of a level are its rows but for the parents of the next.
    rows = np.diff(tree.group_offsets[levels])
    leaves = rows - np.append(np.diff(levels)[1:], 0)
    depths = np.arange(1, levels.size)
    leaf_depths = depths[leaves > 0]
    lines = [
        f"Tree of {tree.num_classes:,} classes",
        f"  {tree.num_rows:,} rows in {fanouts.size:,} groups",
        "  depth of a leaf, min / mean / max: "
        f"{leaf_depths[0]:,} / {np.average(depths, weights=leaves):,.2f} / "
        f"{leaf_depths[-1]:,}",
    ]
    for level in range(min(leaves.size, _SHOWN_LEVELS)):
        level_fanouts = fanouts[levels[level] : levels[level + 1]]
        lines.append(
            f"  level {level + 1}, {_describe(level_fanouts, leaves[level])}"
        )
    if leaves.size > _SHOWN_LEVELS:
        deeper = fanouts[levels[_SHOWN_LEVELS] :]
        lines.append(
            "  below that, " + _describe(deeper, leaves[_SHOWN_LEVELS:].sum())
        )
    lines += [
        f"  weights per unit of width: {num_weights:,} "
        f"({4 * num_weights:,} bytes in float32); biases: {num_weights:,}"
        f"{'; pinned: one row per group' if tree.pinned else ''}",
        f"  tree arrays: {sum(a.nbytes for a in tree._arrays):,} bytes",
    ]
    if tree._names is not None:
        num_named = np.count_nonzero(np.diff(tree._names.offsets))
        num_bytes = sum(array.nbytes for array in tree._names)
        lines.append(f"  names of {num_named:,} rows: {num_bytes:,} bytes")
    return "\n".join(lines)


def _describe(fanouts, num_leaves):
    return (
        f"fanout min / mean / max: {fanouts.min():,} / {fanouts.mean():,.2f} "
        f"/ {fanouts.max():,}; groups: {fanouts.size:,}; "
        f"leaves: {num_leaves:,}"
    )
