"""Models that are converted: binary trees with a vector for each inner node."""

import dataclasses

import numpy as np

from tf_hsm.tree import Tree
from tf_hsm.tree.arrays import assemble


@dataclasses.dataclass(frozen=True, eq=False)
class ConvertedModel:
    """A tree with weights, and the input vectors that belong to it.

    `tf_hsm.hierarchical_softmax_loss(model.weights, model.biases, labels,
    inputs, model.tree)` is -log p of the model that was converted, for any
    inputs `[..., D]`.

    Attributes:
      tree: a binary `tf_hsm.Tree` over the N output words or labels, pinned
        unless it was asked not to be, or N is 1.
      weights: `[G, D]`, the model's own vectors, to the bit; of a tree that is
        not pinned `[R, D]`, where of the two rows of a group one is zero.
      names: the N output words or labels, in class order.
      inputs: `[V, D]`, the vectors of the input words.
      input_names: the V input words.
      biases: None; the models that are read here have none.
    """

    tree: Tree
    weights: np.ndarray = dataclasses.field(repr=False)
    names: list[str] = dataclasses.field(repr=False)
    inputs: np.ndarray = dataclasses.field(repr=False)
    input_names: list[str] = dataclasses.field(repr=False)
    biases: None = None


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
        the weights `[G, D]` are the vectors themselves. Otherwise they are
        `[R, D]`. The tree of one class has no vector and is not pinned.
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


def check_finite(name, matrix, error=ValueError):
    """Raises an `error` unless all numbers of a matrix are finite."""
    is_bad = ~np.isfinite(matrix)
    if is_bad.any():
        row, column = np.unravel_index(np.argmax(is_bad), matrix.shape)
        raise error(
            f"{name} has {matrix[row, column]} at [{row}, {column}]; its "
            "numbers must be finite"
        )
