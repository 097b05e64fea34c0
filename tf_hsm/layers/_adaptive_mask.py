"""Which classes an answer of an adaptive softmax may name."""

import tensorflow as tf

from tf_hsm.ops.allowed import AllowedClasses


class AllowedRanks:
    """Allowed classes, as the shortlist and each tail number them.

    Args:
      allowed: see `tf_hsm.hierarchical_softmax_top_k`.
      clusters: the `FrequencyClusters`.
      inputs: `[..., width]`.

    Attributes:
      classes: the `AllowedClasses`.
    """

    def __init__(self, allowed, clusters, inputs):
        """See the class, and `AllowedClasses.read` for errors."""
        self.classes = AllowedClasses.read(allowed, clusters, inputs)
        self._clusters = clusters
        lists = self.classes.lists
        # [1 or B, M], and -1.
        self._ranks = clusters.ranks(
            lists, "allowed", lists < clusters.num_classes
        )

    def in_shortlist(self):
        """Which of the shortlist's classes are allowed, `[1 or B, n]` bool."""
        last = tf.constant(self._clusters.num_classes, tf.int64)
        ranks = tf.sort(tf.where(self._ranks < 0, last, self._ranks), -1)
        size = self._clusters.shortlist_size
        return AllowedClasses(ranks, self._clusters.num_classes).contain(
            tf.broadcast_to(tf.range(size), [tf.shape(ranks)[0], size])
        )

    def are_in_tail(self, number):
        """Whether a class of a tail is allowed, `[1 or B]` bool."""
        return tf.reduce_any(self._in_tail(number) >= 0, -1)

    def of_tail(self, number, route):
        """The classes of a tail that are allowed, for its own search.

        Args:
          number: of the tail.
          route: the `Route` to it.
        """
        within = self._in_tail(number)
        return within[0] if within.shape[0] == 1 else route.take(within)

    def _in_tail(self, number):
        """The allowed classes of a tail `[1 or B, M]`, -1 for others."""
        begin = self._clusters.cutoffs[number]
        end = begin + self._clusters.tail_trees[number].num_classes
        ranks = self._ranks
        return tf.where((ranks >= begin) & (ranks < end), ranks - begin, -1)
