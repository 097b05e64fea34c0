"""Pinned trees, and the NumPy references for them.

A reference sees what a pinned tree means: weights and biases of zero for the
second row of each group. What it says of these rows nobody asks for.
"""

import dataclasses
import functools

import numpy as np

import tf_hsm
from tests.support import inference_reference, oracle, trees

TREES = {
    "two_classes": lambda: tf_hsm.Tree.balanced(2, 2).pin(),
    "binary_37": lambda: trees.CATALOGUE["binary_37"]().pin(),
    "huffman_203": lambda: trees.CATALOGUE["huffman_2ary"]().pin(),
    "chain_50": lambda: trees.chain(50).pin(),
}
TREE = tf_hsm.Tree.huffman(1 / np.arange(1, 61)).pin()

build = functools.cache(lambda name: TREES[name]())


def random_problem(tree, batch, dim, dtype=np.float32, seed=0):
    """As `oracle.random_problem`, with a row of weights per group."""
    drawn = oracle.random_problem(tree, batch, dim, dtype, seed)
    return drawn.replace(weights=drawn.weights[::2], biases=drawn.biases[::2])


def expanded(problem):
    """The problem with zeros for the second rows."""

    def spread(array):
        if array is None:
            return None
        rows = np.zeros([2 * len(array), *array.shape[1:]], array.dtype)
        rows[::2] = array
        return rows

    return problem.replace(
        weights=spread(problem.weights), biases=spread(problem.biases)
    )


def hierarchical_softmax(tree, problem, **options):
    """As `oracle.hierarchical_softmax`, of the rows that have weights."""
    both = oracle.hierarchical_softmax(tree, expanded(problem), **options)
    return [_first_rows(result) for result in both]


def log_prob_gradients(tree, problem, upstream):
    """As `inference_reference.gradients`, of the rows that have weights."""
    both = inference_reference.gradients(tree, expanded(problem), upstream)
    return [_first_rows(result) for result in both]


def touched_rows(tree, labels, ignore_class=None):
    """The groups on the paths of the labels, sorted."""
    return oracle.touched_rows(tree, labels, ignore_class)[::2] // 2


def _first_rows(result):
    return dataclasses.replace(result, dw=result.dw[::2], db=result.db[::2])
