"""A tree of the same shape in which similar classes share groups."""

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree import clustering
from tf_hsm.tree.builders.embeddings import (
    check_vectors,
    points_of,
    sort_siblings,
)
from tf_hsm.tree.builders.progress import progress
from tf_hsm.tree.pruned_tree import pruned_arrays

_MAX_ITERATIONS = 50  # as the default of `Tree.from_embeddings`


def regroup(tree, vectors, keep_depths, seed, verbose):
    """Returns a tree of the same shape: see `Tree.regroup`."""
    vectors = check_vectors(vectors)
    if len(vectors) != tree.num_classes:
        raise ValueError(
            f"vectors has {len(vectors)} rows; it must have one for each "
            f"of the {tree.num_classes} classes"
        )
    seed = _checks.check_int("seed", seed, 0)
    points = points_of(vectors, "cosine")
    report = progress("regroup", verbose)
    depths = tree.group_depths[tree.row_groups[tree.class_rows]]
    if not keep_depths:
        depths = np.zeros_like(depths)
    class_rows = tree.class_rows.copy()
    for depth in np.unique(depths):
        classes = np.flatnonzero(depths == depth)
        # Depth-first, as `leaf_points` returns points.
        rows = tree.class_rows[classes[np.argsort(tree.class_ranks[classes])]]
        above, *_ = pruned_arrays(tree, depths == depth, "drop")
        order = clustering.leaf_points(
            points[classes], above, seed, _MAX_ITERATIONS, report
        )
        class_rows[classes[order]] = rows
    groups = tree.row_groups[class_rows]
    class_rows = sort_siblings(class_rows, groups, tree.class_rows)
    moved = tree._with(class_rows=class_rows, names=None)
    if tree.names is None:
        return moved
    return moved.with_class_names(tree.names[tree.class_rows])
