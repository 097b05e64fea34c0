"""Which nodes of a trie have an allowed item at or below them."""

import tensorflow as tf

_NONE = -1


class NodeMask:
    """The mask of booleans, for all entries of a batch or for each.

    Args:
      spans: `[V, 2]`, see `TrieArrays`.
      before: `[N + 1]` or `[batch, N + 1]`, how many items of lower ranks are
        allowed.
    """

    def __init__(self, spans, before):
        """See the class."""
        self._spans = spans
        self._before = before

    def keep(self, nodes):
        """Returns nodes `[batch, ...]`, with -1 for a node that is masked."""
        spans = tf.gather(self._spans, tf.maximum(nodes, 0))
        batch_dims = self._before.shape.rank - 1
        if batch_dims:
            _check_batch(self._before, nodes)
        counts = tf.gather(self._before, spans, axis=-1, batch_dims=batch_dims)
        return tf.where(counts[..., 1] > counts[..., 0], nodes, _NONE)


class ListMask:
    """The mask of a list of items for each entry of a batch.

    Args:
      spans: `[V, 2]`, see `TrieArrays`.
      ranks: `[batch, M]` int32, the ranks of the items, ascending; N for none.
    """

    def __init__(self, spans, ranks):
        """See the class."""
        self._spans = spans
        self._ranks = ranks

    def keep(self, nodes):
        """As of `NodeMask`; an entry costs O(log M) for each of its nodes."""
        _check_batch(self._ranks, nodes)
        spans = tf.gather(self._spans, tf.maximum(nodes, 0))
        shape = tf.shape(spans)
        counts = tf.searchsorted(
            self._ranks, tf.reshape(spans, [shape[0], -1]), side="left"
        )
        counts = tf.reshape(counts, shape)
        return tf.where(counts[..., 1] > counts[..., 0], nodes, _NONE)


def _check_batch(rows, nodes):
    """Raises an error unless there is a row for each entry of the batch."""
    tf.debugging.assert_equal(
        tf.shape(rows)[0],
        tf.shape(nodes)[0],
        "allowed must have one row for all entries of the batch, or a row for "
        "each entry",
    )
