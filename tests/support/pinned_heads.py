"""Heads on pinned trees, and the same on the expanded ones."""

import keras
import numpy as np

from tf_hsm import Tree
from tf_hsm.layers import HierarchicalSoftmax

WIDTH = 6
COUNTS = 10**5 // np.arange(1, 54)
TREE = Tree.huffman(COUNTS, pinned=True)
INITIALIZERS = {
    "kernel_initializer": keras.initializers.RandomNormal(seed=1),
    "bias_initializer": keras.initializers.RandomNormal(seed=2),
}


def two_heads(tree=TREE, **options):
    """A head on a pinned tree, and one of the same values expanded."""
    head = HierarchicalSoftmax(tree, **{**INITIALIZERS, **options})
    head.build([None, WIDTH])
    other = HierarchicalSoftmax(tree.expand(), **{**INITIALIZERS, **options})
    other.build([None, WIDTH])
    copy_to(other, head)
    return head, other


def copy_to(other, head):
    """Gives the head on the expanded tree the values of the other one."""
    tree = head.tree
    other.kernel.assign(tree.expand_rows(head.kernel.numpy()))
    if head.bias is not None:
        other.bias.assign(tree.expand_rows(head.bias.numpy()))


def data(shape=(7,), tree=TREE, seed=0):
    """Random inputs `[*shape, WIDTH]`, and labels."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=[*shape, WIDTH]).astype(np.float32)
    return x, rng.integers(tree.num_classes, size=shape)
