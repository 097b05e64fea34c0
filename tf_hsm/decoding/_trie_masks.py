"""Masks of the nodes of a trie that have an allowed item at or below them."""

import tensorflow as tf

_NONE = -1


class NodeMask:
    """A mask for all entries of a batch, or one for each entry.

    `spans [V, 2]` are the field of `TrieArrays`. `count` is `count_booleans` or
    `count_listed`: a function from `allowed`, `[...]` or `[batch, ...]`, and
    ranks `[batch, ...]` to the numbers of allowed items of lower ranks.
    """

    def __init__(self, spans, allowed, count):
        self._spans = spans
        self._allowed = allowed
        self._count = count

    def keep(self, nodes):
        """Returns nodes `[batch, ...]`, with -1 for a node that is masked."""
        if self._allowed.shape.rank == 2:
            tf.debugging.assert_equal(
                tf.shape(self._allowed)[0],
                tf.shape(nodes)[0],
                "allowed must have one row for all entries of the batch, or a "
                "row for each entry",
            )
        spans = tf.gather(self._spans, tf.maximum(nodes, 0))
        counts = self._count(self._allowed, spans)
        return tf.where(counts[..., 1] > counts[..., 0], nodes, _NONE)


def count_booleans(before, ranks):
    """Looks the counts up in `before`, `[N + 1]` or `[batch, N + 1]`."""
    return tf.gather(before, ranks, axis=-1, batch_dims=before.shape.rank - 1)


def count_listed(items, ranks):
    """Counts by bisection, O(log M) for each of the ranks `[batch, ...]`.

    `items`, `[M]` or `[batch, M]` int32, are the ranks of the allowed items,
    ascending; N for none.
    """
    rows = items if items.shape.rank == 2 else items[tf.newaxis]
    counts = tf.searchsorted(rows, tf.reshape(ranks, [tf.shape(rows)[0], -1]))
    return tf.reshape(counts, tf.shape(ranks))
