"""The trees that the tests run over: name -> function that builds the tree."""

import numpy as np

from tf_hsm.tree import Tree


def chain(depth):
    """A path of `depth` groups of two: a leaf, and the next group."""
    inner = np.arange(depth)
    return Tree.from_parents(np.concatenate([inner - 1, inner, inner[-1:]]))


def _zipf_huffman(num_classes, branching):
    ranks = np.random.default_rng(num_classes).permutation(num_classes) + 1
    return Tree.huffman(1_000_000 // ranks, branching=branching)


def _only_children():
    """A chain of three groups of 1 above a group of two groups of 1 and 3."""
    return Tree.from_parents([-1, 0, 1, 2, 2, 2, 3, 4, 4, 4])


def _random(num_inner, num_leaves):
    """Leaves and inner nodes below random inner nodes: ragged everywhere."""
    rng = np.random.default_rng(num_inner)
    parents = [-1] + [int(rng.integers(node)) for node in range(1, num_inner)]
    # Below every inner node goes one leaf at least, so that none is a class.
    owners = np.concatenate(
        [
            np.arange(num_inner),
            rng.integers(num_inner, size=num_leaves),
        ]
    )
    return Tree.from_parents(np.concatenate([parents, owners]))


def _one_huge_group():
    """A root of 41 nodes: one has 500 leaves, and the others 1 to 3 each."""
    leaves = np.concatenate([[500], 1 + np.arange(40) % 3])
    owners = 1 + np.repeat(np.arange(41), leaves)
    return Tree.from_parents(np.concatenate([[-1], np.zeros(41, int), owners]))


CATALOGUE = {
    "two_level_2": lambda: Tree.two_level(2),
    "two_level_3": lambda: Tree.two_level(3),
    "two_level_7": lambda: Tree.two_level(7),
    "two_level_100": lambda: Tree.two_level(100),
    "two_level_1013": lambda: Tree.two_level(1013),
    "binary_64": lambda: Tree.balanced(64, 2),
    "binary_37": lambda: Tree.balanced(37, 2),
    "balanced_5ary_113": lambda: Tree.balanced(113, 5),
    "balanced_per_level": lambda: Tree.balanced(59, [3, 4, 5]),
    "huffman_2ary": lambda: _zipf_huffman(203, 2),
    "huffman_4ary": lambda: _zipf_huffman(151, 4),
    "chain_50": lambda: chain(50),
    "flat": lambda: Tree.balanced(97, 97),
    "single_class": lambda: Tree.balanced(1, 2),
    "only_children": _only_children,
    "random": lambda: _random(23, 71),
    "one_huge_group": _one_huge_group,
}

# One of each kind: levels of one group and of many, as wide as each other and
# not; paths of one length and not; groups of one row.
KINDS = [
    "two_level_2",
    "two_level_100",
    "binary_37",
    "balanced_per_level",
    "huffman_4ary",
    "chain_50",
    "flat",
    "single_class",
    "only_children",
    "random",
    "one_huge_group",
]


# Slow for anything that does one thing per level.
DEEP = {"chain_10000": lambda: chain(10_000)}


class OfRows:
    """A tree as the oracle takes it, whose labels are all rows.

    Attributes:
        structure: The tree.
    """

    def __init__(self, tree):
        self.structure = tree
        self.pinned = tree.pinned
        self.depth = tree.depth
        self.num_rows = self.num_classes = tree.num_rows
        self.group_offsets = tree.group_offsets
        self.group_parents = tree.group_parents
        self.class_rows = np.arange(tree.num_rows)
