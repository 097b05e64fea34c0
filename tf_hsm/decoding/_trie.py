"""The trie of the codes of items, on a device."""

import tensorflow as tf

from tf_hsm.decoding import _trie_arrays, _trie_masks
from tf_hsm.runtime import arguments

_NONE = -1


class Trie(tf.Module):
    """The items that a decoder of codes may emit.

    Generative retrieval names an item by a path of codes, its semantic ID, and
    a sequence model emits the codes one after the other. With
    `beam_search(..., constraint=trie)` or a `Sampler`, it emits the path of an
    item and nothing else:

    >>> codes = tf_hsm.semantic_ids(vectors, [256, 256, 256])
    >>> trie = tf_hsm.decoding.Trie(codes)
    >>> found = tf_hsm.decoding.beam_search(
    ...     step, state, head, beam_width=10, length=trie.depth, constraint=trie
    ... )
    >>> trie.items(found.classes)  # [batch, 10]

    The trie is four arrays of int32, 16 bytes per node, on the device on which
    it is made. A step reads them by gathers in the graph. They are variables,
    so a module that is saved with a decoder must have the trie as an attribute.

    The nodes are numbered level by level: 0 is the root, and siblings have
    neighbouring numbers and ascending codes.

    Args:
      codes: `[N, L]` integers, the path of each item: classes of the decoder's
        head. After the end of a shorter path stands -1.

    Attributes:
      num_items: N, the number of items.
      num_nodes: V, the number of nodes.
      num_codes: one more than the largest code.
      depth: L, or less if no path has so many codes.

    Raises:
      ValueError: the codes of an item are the codes of another item, or their
        beginning, or are no path; names the items.
    """

    def __init__(self, codes):
        super().__init__()
        codes, lengths = _trie_arrays.check_codes(codes)
        arrays = _trie_arrays.make(codes, lengths)
        self.num_items, self.num_nodes = len(codes), arrays.codes.size
        self.num_codes = int(arrays.codes.max()) + 1
        self.depth = int(lengths.max())
        self._begins, self._codes, self._spans, self._items = (
            tf.Variable(array, trainable=False, name=name)
            for name, array in arrays._asdict().items()
        )

    def children(self, nodes):
        """Returns the children of nodes `[...]`, `[..., F]` int32.

        F is the most children that one of the nodes has. -1 fills the rows of
        nodes that have fewer.
        """
        nodes = tf.cast(nodes, tf.int32)
        begins = tf.gather(self._begins, nodes)
        counts = tf.gather(self._begins, nodes + 1) - begins
        most = tf.reduce_max(tf.reshape(counts, [-1]))
        places = tf.range(tf.maximum(most, 0))  # the most of no nodes
        return tf.where(
            places < counts[..., tf.newaxis],
            begins[..., tf.newaxis] + places,
            _NONE,
        )

    def codes(self, nodes):
        """Returns the last code of nodes, int64; -1 for -1 and the root."""
        nodes = tf.maximum(tf.cast(nodes, tf.int32), 0)
        return tf.cast(tf.gather(self._codes, nodes), tf.int64)

    def is_leaf(self, nodes):
        """Returns which nodes are the last of an item's path, bool."""
        nodes = tf.cast(nodes, tf.int32)
        begins = tf.gather(self._begins, nodes)
        return tf.equal(begins, tf.gather(self._begins, nodes + 1))

    def items(self, codes):
        """Returns the items whose paths are codes `[..., L]`, `[...]` int64.

        Takes the `classes` that a decoder returned. -1 stands for a path that
        no item has, such as a place that a beam search could not fill.
        """
        codes = tf.cast(codes, tf.int64)
        codes = tf.pad(
            codes,
            [[0, 0]] * (codes.shape.rank - 1) + [[0, 1]],
            constant_values=-1,
        )
        nodes = tf.zeros_like(codes[..., 0], tf.int32)
        is_over = tf.zeros_like(nodes, tf.bool)
        for column in tf.unstack(codes, axis=-1):
            is_over |= column < 0
            found = self.child(tf.maximum(nodes, 0), column)
            nodes = tf.where(is_over | (nodes < 0), nodes, found)
        at = tf.maximum(nodes, 0)
        items = tf.gather(self._items, tf.gather(self._spans, at)[..., 0])
        is_item = (nodes > 0) & self.is_leaf(at)
        return tf.cast(tf.where(is_item, items, _NONE), tf.int64)

    def child(self, nodes, codes):
        """Returns the child of nodes `[...]` that has a code `[...]`, or -1.

        By bisection, since siblings have ascending codes.
        """
        nodes = tf.cast(nodes, tf.int32)
        codes = tf.cast(codes, tf.int64)
        is_code = (codes >= 0) & (codes < self.num_codes)
        codes = tf.cast(tf.where(is_code, codes, _NONE), tf.int32)
        low = tf.gather(self._begins, nodes)
        high = end = tf.gather(self._begins, nodes + 1)
        for _ in range(self.num_codes.bit_length()):
            middle = (low + high) // 2
            is_below = (low < high) & (
                tf.gather(self._codes, tf.minimum(middle, self.num_nodes - 1))
                < codes
            )
            low = tf.where(is_below, middle + 1, low)
            high = tf.where(is_below, high, middle)
        at = tf.minimum(low, self.num_nodes - 1)
        is_found = (low < end) & tf.equal(tf.gather(self._codes, at), codes)
        return tf.where(is_found, low, _NONE)

    def mask(self, allowed):
        """Returns the mask of the nodes with allowed items below them.

        A decoder takes the mask as `allowed`. Making a mask of booleans costs
        O(N) for each of their rows: make it once for all searches with the same
        items.

        Args:
          allowed: the items allowed in all entries of the batch, `[N]` bool or
            `[M]` integers; or the items of each entry, `[batch, N]` bool or
            `[batch, M]` integers. -1 stands for no item. `[batch, M]` integers
            need O(N) time and O(batch * M) memory, and `[batch, N]` booleans
            O(batch * N) of both.

        Raises:
          tf.errors.InvalidArgumentError (ValueError where a graph is traced):
            there is not one boolean per item, or an item is out of range.
          TypeError: they are neither integers nor booleans.
        """
        allowed = tf.convert_to_tensor(allowed)
        if allowed.shape.rank not in (1, 2):
            raise ValueError(
                "allowed must be [num_items] booleans or a list of items, for "
                "all entries of the batch, or have such a row for each entry, "
                f"but has the shape {allowed.shape}"
            )
        if allowed.dtype != tf.bool:
            items = arguments.integers(allowed, "allowed")
            return _trie_masks.NodeMask(
                self._spans, self._ranks(items), _trie_masks.count_listed
            )
        tf.debugging.assert_equal(
            tf.shape(allowed)[-1],
            self.num_items,
            "allowed must have a boolean for each item of the constraint",
        )
        by_rank = tf.cast(tf.gather(allowed, self._items, axis=-1), tf.int32)
        before = tf.cumsum(by_rank, -1)
        before = tf.pad(before, [*[[0, 0]] * (before.shape.rank - 1), [1, 0]])
        return _trie_masks.NodeMask(
            self._spans, before, _trie_masks.count_booleans
        )

    def _ranks(self, items):
        """Returns the ranks of items, ascending; N for -1."""
        items = tf.cast(items, tf.int64)
        is_right = (items >= -1) & (items < self.num_items)
        tf.debugging.Assert(
            tf.reduce_all(is_right),
            [
                f"allowed has an item outside [0, {self.num_items}) that is "
                "no -1:",
                tf.boolean_mask(items, ~is_right),
            ],
            summarize=1,
        )
        ranks = tf.math.invert_permutation(self._items)
        ranks = tf.gather(ranks, tf.maximum(items, 0))
        return tf.sort(tf.where(items < 0, self.num_items, ranks), -1)
