"""What the references say of any tree, pinned or not.

Weights, biases and their gradients have a row for each row of the weights. A
reference sees what a pinned tree means: weights and biases of zero for the
second row of each group.
"""

import dataclasses
import functools

import numpy as np

import tf_hsm
from tests.support import forests, inference_reference, oracle, trees

_PINNED = {
    "two_classes": lambda: tf_hsm.Tree.balanced(2, 2).pin(),
    "binary_37": lambda: trees.CATALOGUE["binary_37"]().pin(),
    "huffman_203": lambda: trees.CATALOGUE["huffman_2ary"]().pin(),
    "chain_50": lambda: trees.chain(50).pin(),
}
# Forests, each below some rows of a tree.
FORESTS = [f"below {name}" for name in forests.TREES]
PINNED = [f"pinned {name}" for name in _PINNED]
NAMES = [*trees.CATALOGUE, *FORESTS, *PINNED]


@functools.cache
def build(name):
    """Makes a tree, or a forest, of the catalogues."""
    if name in FORESTS:
        tree = forests.TREES[name.removeprefix("below ")]()
        return forests.cut(tree, forests.some_rows(tree, 1), 1).forest
    if name in PINNED:
        return _PINNED[name.removeprefix("pinned ")]()
    return {**trees.CATALOGUE, **trees.DEEP}[name]()


def random_problem(
    tree,
    batch,
    dim,
    dtype,
    seed=0,
    smoothed=(0.0, False),
    has_biases=True,
    **options,
):
    """As `oracle.random_problem`, with label smoothing.

    Args:
        tree: A tree, a forest, or `trees.OfRows` of one.
        batch: The number of inputs.
        dim: Their width.
        dtype: The type of inputs and weights.
        seed: The seed of the random numbers.
        smoothed: The share of label smoothing, and whether to a random prior.
        has_biases: Whether there are biases.
        **options: Other fields of the problem.
    """
    problem = oracle.random_problem(tree, batch, dim, dtype, seed)
    if tree.pinned:
        problem = problem.replace(
            weights=problem.weights[::2], biases=problem.biases[::2]
        )
    share, to_prior = smoothed
    prior = None
    if to_prior:
        prior = oracle.random_prior(getattr(tree, "structure", tree))
    return problem.replace(
        label_smoothing=share,
        smoothing_prior=prior,
        biases=problem.biases if has_biases else None,
        **options,
    )


def random_starts(forest, batch, dtype):
    """Draws log-probabilities of the roots, `[batch, roots]`."""
    rng = np.random.default_rng(0)
    starts = 2 * rng.normal(size=[batch, forest.num_roots]) - 3
    return starts.astype(oracle.accumulator(dtype))


def all_starts(tree, batch, dtype):
    """Log-probabilities of roots: none, and random ones for a forest."""
    if tree.num_roots == 1:
        return [None]
    return [None, random_starts(tree, batch, dtype)]


def roots_of_rows(forest):
    """Returns `[R]`, the root that each row is below."""
    return (
        np.searchsorted(forest.root_groups, forest.row_groups, side="right") - 1
    )


def expanded(tree, problem):
    """The problem with zeros for the second rows of a pinned tree."""
    if not tree.pinned:
        return problem
    weights, biases = (
        None if x is None else np.insert(x, np.arange(1, len(x) + 1), 0, 0)
        for x in (problem.weights, problem.biases)
    )
    return problem.replace(weights=weights, biases=biases)


def hierarchical_softmax(tree, problem, **options):
    """As `oracle.hierarchical_softmax`."""
    both = oracle.hierarchical_softmax(tree, expanded(tree, problem), **options)
    return _of_weights(tree, both)


def touched_rows(tree, labels, ignore_class=None):
    """As `oracle.touched_rows`."""
    rows = oracle.touched_rows(tree, labels, ignore_class)
    return rows[::2] // 2 if tree.pinned else rows


def node_log_probs(tree, problem):
    """As `inference_reference.node_log_probs`, of all rows of the tree."""
    return inference_reference.node_log_probs(tree, expanded(tree, problem))


def log_prob_gradients(tree, problem, upstream):
    """As `inference_reference.gradients`."""
    problem = expanded(tree, problem)
    both = inference_reference.gradients(tree, problem, upstream)
    return _of_weights(tree, both)


def _of_weights(tree, results):
    """Leaves the second rows of a pinned tree out of results."""
    if not tree.pinned:
        return results
    return [
        dataclasses.replace(result, dw=result.dw[::2], db=result.db[::2])
        for result in results
    ]
