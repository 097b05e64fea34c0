"""A tree of the same shape in which similar classes share groups."""

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree import arrays
from tf_hsm.tree.builders.embeddings import check_vectors, points_of
from tf_hsm.tree.builders.progress import progress
from tf_hsm.tree.clustering import balanced_clusters

_MAX_ITERATIONS = 50  # as the default of `Tree.from_embeddings`


class TreeRegrouping:
    """The method of `Tree` that moves classes to other leaves."""

    def regroup(self, vectors, *, keep_depths=True, seed=0, verbose=False):
        """Returns a tree of the same shape with similar classes in its groups.

        Only `class_rows` changes. So a head for the new tree has variables of
        the same shapes, and `head.regroup(tree)` moves a trained head to it.
        Classes are divided as `Tree.from_embeddings` divides them, by the
        cosines of their vectors.

        By default each class moves to a leaf of its own depth. Frequent
        classes keep their short paths, and classes in the root's group stay
        there. Leaves of each depth are filled by themselves: a group with
        leaves and inner rows can have one cluster in its leaves and another
        one below its inner rows.

        >>> tree = tree.regroup(vectors)

        Names move with their classes, and inner rows lose their names.

        Args:
          vectors: `[N, D]` real numbers, one vector for each class.
          keep_depths: whether each class keeps its depth. Otherwise any class
            can move to any leaf, as is best where all classes are equally
            frequent.
          seed: an integer, at least 0.
          verbose: whether to write progress to stderr.

        Raises:
          ValueError: `vectors` is not `[N, D]`, or has a number that is NaN or
            infinite; names the class.
        """
        vectors = check_vectors(vectors)
        if len(vectors) != self.num_classes:
            raise ValueError(
                f"vectors has {len(vectors)} rows; it must have one for each "
                f"of the {self.num_classes} classes"
            )
        seed = _checks.check_int("seed", seed, 0)
        points = points_of(vectors, "cosine")
        report = progress("regroup", verbose)
        depths = self.group_depths[self.row_groups[self.class_rows]]
        if not keep_depths:
            depths = np.zeros_like(depths)
        class_rows = self.class_rows.copy()
        for depth in np.unique(depths):
            classes = np.flatnonzero(depths == depth)
            # Depth-first, as `leaf_points` returns points.
            rows = self.class_rows[
                classes[np.argsort(self.class_ranks[classes])]
            ]
            order = balanced_clusters.leaf_points(
                points[classes],
                _above(self._arrays, self._levels, rows),
                seed,
                _MAX_ITERATIONS,
                report,
            )
            class_rows[classes[order]] = rows
        return self._with_class_rows(self._in_old_order(class_rows))

    def _in_old_order(self, class_rows):
        """Sorts the classes of each group as they stood in this tree."""
        result = np.empty_like(class_rows)
        groups = self.row_groups[class_rows]
        by_new_row = np.lexsort((class_rows, groups))
        by_old_row = np.lexsort((self.class_rows, groups))
        result[by_old_row] = class_rows[by_new_row]
        return result


def _above(tree, levels, leaves):
    """Returns the `TreeArrays` of what is at and above some leaves `[n]`."""
    is_in = np.zeros(tree.group_offsets[-1], np.int64)
    is_in[leaves] = 1
    arrays.sum_to_root(is_in, tree, levels)
    is_in = is_in > 0
    fanouts = np.add.reduceat(is_in.astype(np.int64), tree.group_offsets[:-1])
    is_leaf = np.zeros_like(is_in)
    is_leaf[leaves] = True
    is_leaf = is_leaf[is_in]
    return arrays.assemble(
        fanouts[fanouts > 0], ~is_leaf, np.flatnonzero(is_leaf)
    )
