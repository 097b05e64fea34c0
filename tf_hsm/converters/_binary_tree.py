"""Binary trees with one vector per inner node, as a tree with weights."""

import numpy as np

from tf_hsm.tree import Tree
from tf_hsm.tree.arrays import assemble


def to_tree(children, root, vectors, side, pinned):
    """Makes a tree and its weights, by levels and without recursion.

    Nodes are numbered as both libraries do it: node c < N is the leaf of class
    c, node N + i the inner node i.

    Args:
      children: `[N - 1, 2]`, the nodes below each inner node; a tree.
      root: the number of the root among the inner nodes.
      vectors: `[N - 1 or more, D]`, one for each inner node.
      side: 0 or 1, the child whose probability is sigmoid(vector . x).
      pinned: whether the tree is. That child is then the first one, so that
        the weights are the vectors themselves, without a change of sign.

    Returns:
      A `tf_hsm.Tree`, and its weights `[R, D]` in the type of `vectors`; of a
      pinned tree `[G, D]`. That of one class has no vector and is not pinned.
    """
    num_classes = len(children) + 1
    if num_classes == 1:
        return Tree.balanced(1, 2), np.zeros(
            [1, vectors.shape[1]], vectors.dtype
        )
    if pinned and side == 1:
        children = children[:, ::-1]
    level = np.array([root])
    group_nodes, row_nodes = [], []
    while level.size:
        below = children[level].ravel()
        group_nodes.append(level)
        row_nodes.append(below)
        level = below[below >= num_classes] - num_classes
    group_nodes = np.concatenate(group_nodes)
    row_nodes = np.concatenate(row_nodes)
    is_inner = row_nodes >= num_classes
    class_rows = np.empty(num_classes, np.int64)
    class_rows[row_nodes[~is_inner]] = np.flatnonzero(~is_inner)
    fanouts = np.full(group_nodes.size, 2)
    tree = Tree(*assemble(fanouts, is_inner, class_rows), pinned=pinned)
    if pinned:
        return tree, vectors[group_nodes]
    weights = np.zeros([tree.num_rows, vectors.shape[1]], vectors.dtype)
    weights[side::2] = vectors[group_nodes]
    return tree, weights
