"""The trees of the hierarchical head, by name."""

import numpy as np

import tf_hsm
from examples.language_model import word_vectors


def _shuffled(text, branching, seed):
    del branching
    order = np.random.default_rng(seed).permutation(len(text.counts))
    tree = tf_hsm.Tree.two_level(order.size)
    return tf_hsm.Tree(
        tree.group_offsets, tree.group_parents, tree.class_rows[order]
    )


def _clustered(text, branching, seed):
    vectors = word_vectors.following(text.train, len(text.counts))
    return tf_hsm.Tree.from_embeddings(vectors, branching=branching, seed=seed)


# From the text, the branching and a seed; classes are in order of falling
# frequency.
TREES = {
    "two_level": lambda text, k, seed: tf_hsm.Tree.two_level(len(text.counts)),
    "two_level_shuffled": _shuffled,
    "clustered": _clustered,
    "balanced": lambda text, k, seed: tf_hsm.Tree.balanced(len(text.counts), k),
    "binary": lambda text, k, seed: tf_hsm.Tree.balanced(len(text.counts), 2),
    "huffman": lambda text, k, seed: tf_hsm.Tree.huffman(
        text.counts, branching=k
    ),
    "flat": lambda text, k, seed: tf_hsm.Tree.balanced(
        len(text.counts), [len(text.counts)]
    ),
}
