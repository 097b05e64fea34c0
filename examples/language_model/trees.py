"""The trees of the hierarchical head, by name."""

import numpy as np

import tf_hsm

_CHUNK = 1 << 20  # tokens that are read at once


def _shuffled(text, branching, seed):
    del branching
    order = np.random.default_rng(seed).permutation(len(text.counts))
    tree = tf_hsm.Tree.two_level(order.size)
    return tf_hsm.Tree(
        tree.group_offsets, tree.group_parents, tree.class_rows[order]
    )


def _of_data(text, branching, seed):
    del branching

    def batches():
        for begin in range(0, len(text.train) - 1, _CHUNK):
            tokens = text.train[begin : begin + _CHUNK + 1]
            yield tokens[None, :-1], tokens[None, 1:]

    return tf_hsm.Tree.from_data(
        batches(), num_classes=len(text.counts), seed=seed
    )


# From the text, the branching and a seed; classes are in order of falling
# frequency.
TREES = {
    "two_level": lambda text, k, seed: tf_hsm.Tree.two_level(len(text.counts)),
    "two_level_shuffled": _shuffled,
    "data": _of_data,
    "balanced": lambda text, k, seed: tf_hsm.Tree.balanced(len(text.counts), k),
    "binary": lambda text, k, seed: tf_hsm.Tree.balanced(len(text.counts), 2),
    "huffman": lambda text, k, seed: tf_hsm.Tree.huffman(
        text.counts, branching=k
    ),
    "flat": lambda text, k, seed: tf_hsm.Tree.flat(len(text.counts)),
}
