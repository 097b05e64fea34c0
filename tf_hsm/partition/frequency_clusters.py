"""The cluster of each class of an adaptive softmax.

The rank of a class is its place in the order of falling frequency. Ranks below
the first cutoff n are rows 0 to n - 1 of the shortlist; those from cutoff j on
belong to tail j, whose row in the shortlist is n + j.
"""

import dataclasses
import itertools

import numpy as np
import tensorflow as tf

from tf_hsm import _checks
from tf_hsm.cost.cluster_costs import check_tail
from tf_hsm.runtime import arguments
from tf_hsm.runtime.tree_tensors import child_tensors, path_tensors
from tf_hsm.tree import Tree
from tf_hsm.tree.builders import adaptive


def by_frequency(counts):
    """Returns counts `[N]` in falling order, and the order of the classes.

    The order is a tree of one group, in which the row of a class is its rank;
    None where the classes are in that order.
    """
    classes = adaptive.by_frequency(counts)
    order = None
    if np.any(classes[:-1] > classes[1:]):
        ranks = np.empty_like(classes)
        ranks[classes] = np.arange(classes.size)
        order = _flat_tree(ranks)
    return counts[classes], order


@dataclasses.dataclass(frozen=True, eq=False)
class FrequencyClusters:
    """The classes, cut into a shortlist and J tails.

    Attributes:
      num_classes: N.
      cutoffs: the J cutoffs, ascending.
      order: a tree of one group, in which the row of a class is its rank; None
        where the rank is the class.
      shortlist_tree: a tree of one group: the shortlist's classes, then the
        tails.
      tail_trees: one for each tail; its classes are ranks less the cutoff.
    """

    num_classes: int
    cutoffs: tuple
    order: Tree | None
    shortlist_tree: Tree
    tail_trees: tuple

    @classmethod
    def make(cls, num_classes, cutoffs, order, tail):
        """Makes the trees.

        Args:
          num_classes: N.
          cutoffs: ascending, from 1 to N - 1.
          order: see the class.
          tail: "flat", "two_level", the branching of a balanced tree, a `Tree`;
            or a list with one of these for each tail.

        Raises:
          ValueError: cutoffs do not ascend, or tails do not fit them.
        """
        cutoffs = adaptive.check_cutoffs(cutoffs, num_classes)
        ends = [*cutoffs, num_classes]
        kinds = tail
        if not isinstance(tail, (list, tuple)):
            kinds = [tail] * len(cutoffs)
        if len(kinds) != len(cutoffs):
            raise ValueError(
                f"tail lists {len(kinds)} tails; as many as the cutoffs, "
                f"{len(cutoffs)}, are needed"
            )
        tails = []
        for number, (begin, end) in enumerate(itertools.pairwise(ends)):
            tree = kinds[number]
            if not isinstance(tree, Tree):
                kind = check_tail(tree)
                tree = Tree(*adaptive.tail_arrays(kind, end - begin))
            if tree.num_classes != end - begin:
                raise ValueError(
                    f"tail {number} is a tree of {tree.num_classes} classes; "
                    f"between its cutoffs there are {end - begin}"
                )
            tails.append(tree)
        shortlist = _flat_tree(np.arange(ends[0] + len(cutoffs)))
        return cls(num_classes, tuple(cutoffs), order, shortlist, tuple(tails))

    @property
    def shortlist_size(self):
        """n, the number of classes in the shortlist."""
        return self.shortlist_tree.num_classes - len(self.cutoffs)

    def split(self, counts):
        """Returns the counts of the shortlist's rows, and of each tail.

        Args:
          counts: `[N]`, how often the class of each rank occurs.

        Returns:
          A list of arrays: first `[n + J]`, where the row of a tail has the sum
          of its classes' counts; then one for each tail.
        """
        first, *tails = np.split(counts, self.cutoffs)
        return [np.append(first, [tail.sum() for tail in tails]), *tails]

    def split_classes(self, counts):
        """Returns what `split` does, for counts `[N]` of the classes.

        Raises:
          ValueError: the counts are not usable; see `_checks.check_counts`.
        """
        counts = _checks.check_counts(counts, self.num_classes)
        by_rank = counts
        if self.order is not None:
            by_rank = np.empty_like(counts)
            by_rank[self.order.class_rows] = counts
        return self.split(by_rank)

    def ranks(self, classes, name, counted=None):
        """Returns the ranks, int64, of classes of any shape.

        Args:
          classes: integers.
          name: of the argument, for the error.
          counted: None; or bool, of the same shape: other classes may be any
            number, and have rank -1.

        Raises:
          tf.errors.InvalidArgumentError: one is not in [0, N).
        """
        classes = tf.cast(classes, tf.int64)
        kept = arguments.in_range(classes, self.num_classes, name, counted)
        ranks = tf.where(kept, classes, 0)
        if self.order is not None:
            ranks = tf.gather(path_tensors(self.order).class_rows, ranks)
        return tf.where(kept, ranks, -1)

    def classes(self, ranks):
        """Returns the classes of ranks of any shape; of -1, -1."""
        if self.order is None:
            return ranks
        below = child_tensors(self.order).row_below
        classes = ~tf.gather(below, tf.maximum(ranks, 0))
        return tf.where(ranks < 0, ranks, classes)

    def all_ranks(self):
        """Returns the ranks `[N]` of all classes, or None for 0 to N - 1."""
        return self.order and path_tensors(self.order).class_rows

    def tails(self, ranks):
        """Returns the tail of each rank, int64; -1 for the shortlist."""
        cutoffs = tf.constant(self.cutoffs, tf.int64)
        reached = tf.cast(ranks[..., tf.newaxis] >= cutoffs, tf.int64)
        return tf.reduce_sum(reached, -1) - 1

    def shortlist_rows(self, ranks, tails):
        """Returns the row in the shortlist of each rank."""
        return tf.where(tails < 0, ranks, self.shortlist_size + tails)


def grown_order(order, num_classes):
    """Returns the order of more classes, each new one of the next rank.

    Args:
      order: as from `by_frequency`.
      num_classes: how many classes there are now.
    """
    if order is None:
        return None
    new = np.arange(order.num_classes, num_classes)
    return _flat_tree(np.append(order.class_rows, new))


def _flat_tree(class_rows):
    """A tree of one group, whose rows are the classes `[N]`."""
    return Tree([0, len(class_rows)], [-1], class_rows)
