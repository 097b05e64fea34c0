"""The weights of pinned trees, which have one row of weights per group."""

import numpy as np

from tf_hsm.tree.check import check_binary


def pin_rows(tree, weights):
    """Returns the weights of a pinned tree: see `Tree.pin_rows`."""
    weights = _check_weights(tree, weights, tree.num_rows)
    if weights.dtype.kind in "biu":
        raise TypeError(f"weights must be floats, but are {weights.dtype}")
    return weights[0::2] - weights[1::2]


def expand_rows(tree, weights):
    """Returns the weights of all rows: see `Tree.expand_rows`."""
    weights = _check_weights(tree, weights, tree.num_groups)
    expanded = np.zeros([tree.num_rows, *weights.shape[1:]], weights.dtype)
    expanded[0::2] = weights
    return expanded


def _check_weights(tree, weights, size):
    check_binary(tree.group_offsets)
    weights = np.asarray(weights)
    if weights.shape[:1] != (size,):
        raise ValueError(
            f"weights has the shape {list(weights.shape)}; it must be "
            f"[{size}, ...]"
        )
    return weights
