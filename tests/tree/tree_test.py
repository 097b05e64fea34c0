"""Every builder against brute force."""

import heapq

import numpy as np
import pytest

from tests.support.tree_reference import (
    check,
    leaf_paths,
    random_parents,
    to_nested,
)
from tf_hsm.tree import Tree


@pytest.mark.parametrize("seed", range(40))
def test_random_trees(seed):
    parents = random_parents(seed)
    inner = np.unique(parents)
    leaves = np.setdiff1d(np.arange(parents.size), inner)
    classes = np.full(parents.size, -1)
    classes[leaves] = np.arange(leaves.size)
    nested = to_nested(parents, classes)
    tree = Tree.from_parents(parents)
    check(tree, nested)
    assert Tree.from_parents(parents.astype(np.int32), classes=classes) == tree
    assert Tree.from_nested(nested) == tree

    classes[leaves] = np.random.default_rng(seed).permutation(leaves.size)
    nested = to_nested(parents, classes)
    tree = Tree.from_parents(parents.tolist(), classes=classes.tolist())
    check(tree, nested)
    assert Tree.from_nested(nested) == tree

    paths = list(leaf_paths(nested))
    by_rank = Tree.from_paths(paths)
    np.testing.assert_array_equal(by_rank.group_offsets, tree.group_offsets)
    np.testing.assert_array_equal(by_rank.class_ranks, np.arange(len(paths)))


@pytest.mark.parametrize(
    "nested",
    [
        [0],
        [[[0]]],
        [2, 0, 1],
        [[1], [0]],
        [[[[0, 1]]], 2],
        [0, [1, [2, [3, [4, 5]]]]],
    ],
)
def test_small_trees(nested):
    check(Tree.from_nested(nested), nested)


def test_from_paths_keeps_the_order_of_first_occurrence():
    tree = Tree.from_paths([("b", 1), ("a",), ["b", 0], ("c", (1, 2), None)])
    check(tree, [[0, 2], 1, [[3]]])


def test_deep_chain():
    depth = 10_000
    chain = Tree.from_parents(np.arange(-1, depth))
    assert (chain.num_classes, chain.depth) == (1, depth)
    assert chain.path(0).tolist() == list(range(depth))
    assert chain.expected_cost() == depth

    # A class and the rest of the chain at each level.
    nodes = np.arange(depth)
    comb = Tree.from_parents(np.concatenate([[-1], nodes, nodes]))
    assert (comb.num_classes, comb.depth) == (depth + 1, depth)
    # Nodes 1 to `depth` are the chain, so class 0 is its end; each of the
    # others comes after the part of the chain beside it.
    np.testing.assert_array_equal(
        comb.class_ranks, np.append(0, np.arange(depth, 0, -1))
    )
    nested = [0]
    for _ in range(depth - 1):
        nested = [nested]
    assert Tree.from_nested(nested) == chain
    assert Tree.from_paths([[0] * depth]) == chain
    assert Tree.balanced(1, [1]) == Tree.from_nested([0])
    assert "below that" in comb.summary()


def balanced_nested(classes, widths):
    """Spreads consecutive classes as the docstring of `balanced` says."""
    if len(classes) == 1 and widths is not None:
        return classes[0]
    widths = list(widths)
    parts = np.array_split(classes, min(widths[0], len(classes)))
    return [
        int(part[0])
        if len(part) == 1
        else balanced_nested(part.tolist(), widths[1:])
        for part in parts
    ]


@pytest.mark.parametrize("branching", [2, 3, 4, 7, 100])
@pytest.mark.parametrize("num_classes", [1, 2, 3, 4, 5, 8, 9, 37, 64, 100, 101])
def test_balanced(num_classes, branching):
    tree = Tree.balanced(num_classes, branching)
    if num_classes == 1:
        nested = [0]
    else:
        nested = balanced_nested(range(num_classes), [branching] * 8)
    check(tree, nested)
    np.testing.assert_array_equal(tree.class_ranks, np.arange(num_classes))
    fanouts = np.diff(tree.group_offsets)
    assert fanouts.max() <= branching
    assert fanouts.min() >= min(2, num_classes)
    lengths = {len(tree.path(c)) for c in range(num_classes)}
    assert max(lengths) - min(lengths) <= 1
    assert branching ** max(lengths) >= num_classes
    assert branching ** (max(lengths) - 1) < max(num_classes, 2)


def test_balanced_by_level():
    check(
        Tree.balanced(59, [3, 4, 5]),
        balanced_nested(range(59), [3, 4, 5]),
    )
    check(Tree.balanced(3, [1, 1, 3]), [[[0, 1, 2]]])
    check(Tree.balanced(4, (2, 1, 2)), [[[0, 1]], [[2, 3]]])
    check(Tree.balanced(2, np.array([5, 5])), [0, 1])
    check(Tree.balanced(3, [2, 1, 2]), [[[0, 1]], 2])
    fanouts = np.diff(Tree.balanced(1000, [10, 10, 10]).group_offsets)
    assert set(fanouts) == {10}


def test_two_level():
    check(Tree.two_level(1), [0])
    check(Tree.two_level(2), [0, 1])
    check(Tree.two_level(3), [0, 1, 2])
    check(Tree.two_level(5), [[0, 1, 2], [3, 4]])
    for n in range(4, 200):
        tree = Tree.two_level(n)
        fanouts = np.diff(tree.group_offsets)
        assert tree.depth == 2
        assert fanouts[0] == round(n**0.5)
        assert fanouts[1:].max() - fanouts[1:].min() <= 1
        assert fanouts.min() >= 2
        np.testing.assert_array_equal(tree.class_ranks, np.arange(n))
        np.testing.assert_array_equal(
            tree.class_rows, np.arange(n) + fanouts[0]
        )


def optimal_length(counts, k):
    """Total code length of an optimal k-ary prefix code, by a heap."""
    heap = [0] * ((1 - len(counts)) % (k - 1)) + list(counts)
    heapq.heapify(heap)
    total = 0
    while len(heap) > 1:
        merged = sum(heapq.heappop(heap) for _ in range(k))
        total += merged
        heapq.heappush(heap, merged)
    return total


def fibonacci(n):
    numbers = [1, 1]
    while len(numbers) < n:
        numbers.append(numbers[-1] + numbers[-2])
    return numbers


def huffman_counts():
    rng = np.random.default_rng(7)
    for n in (2, 3, 4, 5, 6, 7, 10, 33, 100, 257):
        yield [1] * n
        yield [0] * n
        yield rng.integers(0, 3, n).tolist()
        yield rng.integers(0, 1000, n).tolist()
        yield (10**6 // np.arange(1, n + 1)).tolist()
        yield rng.permutation(2 ** np.minimum(np.arange(n), 50)).tolist()
    yield fibonacci(80)
    yield [0, 0, 0, 5]


@pytest.mark.parametrize("k", [2, 3, 4, 5, 16])
def test_huffman_is_optimal(k):
    for counts in huffman_counts():
        n = len(counts)
        tree = Tree.huffman(counts, branching=k)
        lengths = [len(tree.path(c)) for c in range(n)]
        total = sum(
            w * length for w, length in zip(counts, lengths, strict=True)
        )
        width = min(k, n)
        assert total == optimal_length(counts, width), counts
        fanouts = np.diff(tree.group_offsets)
        assert (fanouts[:-1] == width).all()
        assert fanouts[-1] >= 2
        assert sorted(tree.class_ranks) == list(range(n))


@pytest.mark.parametrize("k", [2, 3, 5])
def test_huffman_of_floats(k):
    rng = np.random.default_rng(k)
    for n in (2, 10, 501):
        for counts in (
            rng.random(n),
            rng.random(n).astype(np.float32),
            np.exp(rng.uniform(-600, 600, n)),
            5e-324 * rng.integers(0, 4, n),
        ):
            tree = Tree.huffman(counts, branching=k)
            weights = counts.astype(np.float64)
            lengths = [len(tree.path(c)) for c in range(n)]
            np.testing.assert_allclose(
                weights @ lengths,
                optimal_length(weights.tolist(), min(k, n)),
                rtol=1e-12,
            )


def test_huffman_shapes():
    check(Tree.huffman([7]), [0])
    check(Tree.huffman([3, 5], branching=10), [1, 0])
    check(Tree.huffman([1, 1, 1]), [[1, 2], 0])
    check(Tree.huffman([8, 1, 4, 2]), [0, [2, [3, 1]]])
    # Six classes by threes: one row is missing, in the deepest group.
    check(
        Tree.huffman([32, 16, 8, 4, 2, 1], branching=3), [0, 1, [2, 3, [4, 5]]]
    )
    assert Tree.huffman(np.ones(64)) == Tree.balanced(64, 2)
    assert Tree.huffman([2, 2, 1, 1]) == Tree.huffman((2.0, 2.0, 1.0, 1.0))
