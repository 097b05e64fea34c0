"""What the references say of any tree, pinned or not.

Weights, biases and their gradients have a row for each row of the weights.
"""

import functools

import numpy as np

from tests.support import forests, inference_reference, oracle, pinned, trees

# Forests, each below some rows of a tree.
FORESTS = [f"below {name}" for name in forests.TREES]
PINNED = [f"pinned {name}" for name in pinned.TREES]
NAMES = [*trees.CATALOGUE, *FORESTS, *PINNED]


@functools.cache
def build(name):
    """Makes a tree, or a forest, of the catalogues."""
    if name in FORESTS:
        tree = forests.TREES[name.removeprefix("below ")]()
        return forests.cut(tree, forests.some_rows(tree, 1), 1).forest
    if name in PINNED:
        return pinned.TREES[name.removeprefix("pinned ")]()
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
        seed: Of the random numbers.
        smoothed: The share of label smoothing, and whether to a random prior.
        has_biases: Whether there are biases.
        **options: Other fields of the problem.
    """
    problem = _of(tree).random_problem(tree, batch, dim, dtype, seed)
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


def random_starts(forest, batch, dtype, seed=0):
    """Draws log-probabilities of the roots, `[batch, roots]`."""
    rng = np.random.default_rng(seed)
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


def hierarchical_softmax(tree, problem, **options):
    """As `oracle.hierarchical_softmax`."""
    return _of(tree).hierarchical_softmax(tree, problem, **options)


def touched_rows(tree, labels, ignore_class=None):
    """As `oracle.touched_rows`."""
    return _of(tree).touched_rows(tree, labels, ignore_class)


def node_log_probs(tree, problem):
    """As `inference_reference.node_log_probs`, of all rows of the tree."""
    if tree.pinned:
        problem = pinned.expanded(problem)
    return inference_reference.node_log_probs(tree, problem)


def log_prob_gradients(tree, problem, upstream):
    """As `inference_reference.gradients`."""
    if tree.pinned:
        return pinned.log_prob_gradients(tree, problem, upstream)
    return inference_reference.gradients(tree, problem, upstream)


def _of(tree):
    return pinned if tree.pinned else oracle
