"""The best classes above a bound, and among allowed ones, against a sort.

Few groups pass a bound near the best class, and none has a class of use: then
a search opens more and more at a time.
"""

import functools

import numpy as np
import pytest

import tf_hsm
from tests.support import inference_reference as reference
from tests.support import oracle, trees
from tests.support.pairs import all_pairs

top_k = tf_hsm.hierarchical_softmax_top_k

TREES = {
    "flat": trees.CATALOGUE["flat"],
    "two_level": trees.CATALOGUE["two_level_100"],
    "balanced": trees.CATALOGUE["balanced_5ary_113"],
    "pinned": lambda: trees.CATALOGUE["binary_64"]().pin(),
    "pinned_huffman": lambda: trees.CATALOGUE["huffman_2ary"]().pin(),
}


@functools.cache
def case(name, batch, ties):
    """A tree, arguments of ops, and all log-probabilities `[B, N]`."""
    tree = TREES[name]()
    problem = oracle.random_problem(tree, batch, 5, np.float32)
    rows = slice(tree.num_weight_rows)
    weights, biases = problem.weights[rows], problem.biases[rows]
    if ties:
        weights, biases = 0 * weights, np.round(biases)
    arguments = weights, biases, problem.inputs
    values = tf_hsm.hierarchical_softmax_log_probs(*arguments, tree).numpy()
    return tree, arguments, values


def masks(tree, batch, kind):
    """`allowed`, and which classes each input may have `[B, N]`."""
    rng = np.random.default_rng(1)
    mask = np.ones([batch, tree.num_classes], bool)
    if kind == "shared":
        mask[:] = rng.random(tree.num_classes) < 0.2
        return mask[0], mask
    if kind == "lists":
        lists = rng.integers(-1, tree.num_classes, size=[batch, 9])
        mask[:] = False
        for row, classes in zip(mask, lists, strict=True):
            row[classes[classes >= 0]] = True
        return lists, mask
    return None, mask


@pytest.mark.parametrize(
    "name, allowed, batch, ties",
    all_pairs(list(TREES), ["all", "shared", "lists"], [5, 40], [False, True]),
)
def test_against_a_sort(name, batch, ties, allowed):
    tree, arguments, values = case(name, batch, ties)
    allowed, mask = masks(tree, batch, allowed)
    ranks = [
        [c for c in reference.ranking(row) if is_allowed[c]]
        for row, is_allowed in zip(values, mask, strict=True)
    ]
    # At a good class, above the best, below the worst, in the middle.
    at = np.arange(batch)
    bounds = np.sort(values)[at, -1 - at % 12]
    bounds[1::4] = values[1::4].max(-1) + 1e-3
    bounds[2::4] = values[2::4].min(-1) - 1
    bounds[3::8] = np.median(values[3::8], -1)
    for k in (1, 8, tree.num_classes):
        found = top_k(*arguments, tree, k, bounds=bounds, allowed=allowed)
        for i, bound in enumerate(bounds):
            wanted = [c for c in ranks[i][:k] if values[i, c] >= bound]
            none = k - len(wanted)
            np.testing.assert_array_equal(
                found.classes[i], wanted + [-1] * none
            )
            np.testing.assert_array_equal(
                found.log_probs[i],
                np.append(values[i, wanted], [-np.inf] * none),
            )
