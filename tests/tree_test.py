"""tf_hsm.tree against a plain-Python reference."""

import copy
import doctest
import heapq
import itertools
import json
import pickle
import zipfile

import numpy as np
import pytest

from tf_hsm import tree as tree_module
from tf_hsm.tree import Tree

DERIVED = (
    "num_classes",
    "num_rows",
    "num_groups",
    "depth",
    "group_offsets",
    "group_parents",
    "class_rows",
    "row_groups",
    "row_classes",
    "row_children",
    "group_depths",
    "class_ranks",
)


def reference(nested):
    """Computes all of `DERIVED`, and the paths, from nested lists."""
    queue = [(nested, -1, 0, [])]  # list, parent row, depth, path
    offsets, parents, depths, row_groups = [0], [], [], []
    row_classes, row_children, paths = [], [], {}
    for group, (items, parent, depth, path) in enumerate(queue):
        parents.append(parent)
        depths.append(depth)
        for item in items:
            row = len(row_groups)
            row_groups.append(group)
            if isinstance(item, list):
                row_classes.append(-1)
                row_children.append(len(queue))
                queue.append((item, row, depth + 1, [*path, row]))
            else:
                row_classes.append(item)
                row_children.append(-1)
                paths[item] = [*path, row]
        offsets.append(len(row_groups))
    ranks = {}

    def visit(items):
        for item in items:
            if isinstance(item, list):
                visit(item)
            else:
                ranks[item] = len(ranks)

    visit(nested)
    classes = range(len(paths))
    return {
        "num_classes": len(paths),
        "num_rows": len(row_groups),
        "num_groups": len(parents),
        "depth": max(map(len, paths.values())),
        "group_offsets": offsets,
        "group_parents": parents,
        "class_rows": [paths[c][-1] for c in classes],
        "row_groups": row_groups,
        "row_classes": row_classes,
        "row_children": row_children,
        "group_depths": depths,
        "class_ranks": [ranks[c] for c in classes],
        "paths": [paths[c] for c in classes],
    }


def check(tree, nested):
    expected = reference(nested)
    for name in DERIVED:
        value = getattr(tree, name)
        if isinstance(value, np.ndarray):
            assert value.dtype == np.int64 and value.flags.c_contiguous, name
            assert not value.flags.writeable, name
        else:
            assert type(value) is int, name
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    for c, path in enumerate(expected["paths"]):
        assert tree.path(c).tolist() == path
    fanouts = np.diff(expected["group_offsets"])
    costs = [
        sum(fanouts[expected["row_groups"][row]] for row in path)
        for path in expected["paths"]
    ]
    assert tree.expected_cost() == pytest.approx(np.mean(costs))
    counts = np.arange(len(costs)) % 5 + (len(costs) == 1)
    assert tree.expected_cost(counts) == pytest.approx(
        np.average(costs, weights=counts)
    )


def random_parents(seed):
    """Returns parents with node numbers in random order, [M]."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 120))
    reach = int(rng.integers(1, size))  # 1 makes a chain, size a bush
    parents = [-1] + [
        int(rng.integers(max(0, node - reach), node)) for node in range(1, size)
    ]
    number = rng.permutation(size)
    shuffled = np.empty(size, np.int64)
    shuffled[number] = [-1 if p < 0 else number[p] for p in parents]
    return shuffled


def to_nested(parents, classes):
    """Builds nested lists, siblings in node order."""
    lists = {node: [] for node in range(len(parents))}
    is_leaf = np.bincount(np.add(parents, 1), minlength=len(parents) + 1) == 0
    for node, parent in enumerate(parents):
        if parent >= 0:
            leaf = is_leaf[node + 1]
            lists[parent].append(int(classes[node]) if leaf else lists[node])
    return lists[int(np.argmin(parents))]


def leaf_paths(nested, prefix=()):
    for key, item in enumerate(nested):
        if isinstance(item, list):
            yield from leaf_paths(item, (*prefix, str(key)))
        else:
            yield (*prefix, str(key))


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
    assert Tree.from_parents(parents.astype(np.int32), classes) == tree
    assert Tree.from_nested(nested) == tree

    classes[leaves] = np.random.default_rng(seed).permutation(leaves.size)
    nested = to_nested(parents, classes)
    tree = Tree.from_parents(parents.tolist(), classes.tolist())
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


def test_from_parents_accepts_any_root_number():
    tree = Tree.from_parents([2, 2, -1, 1, 1])
    check(tree, [0, [1, 2]])


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
        tree = Tree.huffman(counts, k)
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
            tree = Tree.huffman(counts, k)
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
    check(Tree.huffman([32, 16, 8, 4, 2, 1], 3), [0, 1, [2, 3, [4, 5]]])
    assert Tree.huffman(np.ones(64)) == Tree.balanced(64, 2)
    assert Tree.huffman([2, 2, 1, 1]) == Tree.huffman((2.0, 2.0, 1.0, 1.0))


NESTED_CYCLE = [0]
NESTED_CYCLE.append([1, NESTED_CYCLE])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Tree.balanced(0, 2), "num_classes is 0"),
        (lambda: Tree.balanced(2.0, 2), "num_classes must be an integer"),
        (lambda: Tree.balanced(True, 2), "num_classes must be an integer"),
        (lambda: Tree.balanced(5, 1), "branching is 1"),
        (lambda: Tree.balanced(5, "x"), "branching must be an integer"),
        (lambda: Tree.balanced(5, [2, 0]), r"branching\[1\] is 0"),
        (lambda: Tree.balanced(5, [2, 2]), "reaches 4 leaves; there are 5"),
        (lambda: Tree.balanced(5, []), "reaches 0 leaves"),
        (lambda: Tree.two_level(-1), "num_classes is -1"),
        (lambda: Tree.huffman([]), "counts is empty"),
        (lambda: Tree.huffman([[1, 2]]), r"its shape is \[1, 2\]"),
        (lambda: Tree.huffman([[1], [2, 3]]), "list of numbers"),
        (lambda: Tree.huffman(["a"]), "must hold numbers"),
        (lambda: Tree.huffman([True]), "must hold numbers"),
        (lambda: Tree.huffman([None]), "must hold numbers"),
        (lambda: Tree.huffman([1, -2, -3]), "count of class 1 is -2"),
        (lambda: Tree.huffman([1, 2, np.nan]), "count of class 2 is nan"),
        (lambda: Tree.huffman([np.inf, 1]), "count of class 0 is inf"),
        (lambda: Tree.huffman([2**62, 2**62]), r"less than 2\*\*63"),
        (
            lambda: Tree.huffman(np.array([2**64 - 1, 1], np.uint64)),
            r"less than 2\*\*63",
        ),
        (lambda: Tree.huffman([1e308, 1e308]), "more than a float64"),
        (lambda: Tree.huffman([1, 2], 1), "branching is 1"),
        (lambda: Tree.from_parents([]), "parents is empty"),
        (lambda: Tree.from_parents([-1]), "node 0 is the root and has no"),
        (lambda: Tree.from_parents([[0]]), "must have rank 1"),
        (lambda: Tree.from_parents([-1.0, 0.0]), "must hold integers"),
        (lambda: Tree.from_parents([-1, None]), "must hold integers"),
        (lambda: Tree.from_parents([0, 0]), "no node has parent -1"),
        (lambda: Tree.from_parents([1, 0]), "no node has parent -1"),
        (lambda: Tree.from_parents([-1, 0, -1]), "node 0 and node 2 both"),
        (lambda: Tree.from_parents([-1, 0, 3]), "node 2 has parent 3"),
        (lambda: Tree.from_parents([-1, -2]), "node 1 has parent -2"),
        (
            lambda: Tree.from_parents(np.array([0, 2**63], np.uint64)),
            r"parents\[1\] is 9223372036854775808",
        ),
        (lambda: Tree.from_parents([-1, 0, 2]), "ancestor: 2 -> 2$"),
        (
            lambda: Tree.from_parents([-1, 0, 4, 2, 3, 4]),
            "ancestor: 2 -> 4 -> 3 -> 2$",
        ),
        (
            lambda: Tree.from_parents([-1, 0, *range(3, 20), 2]),
            r"ancestor: 2 -> 3 -> .* -> \.\.\.$",
        ),
        (lambda: Tree.from_parents([-1, 0], [0]), "classes has 1 entries"),
        (lambda: Tree.from_parents([-1, 0], [0, 0]), "node 0 has class 0"),
        (lambda: Tree.from_parents([-1, 0], [-1, -1]), "node 1 .* is a leaf"),
        (lambda: Tree.from_parents([-1, 0], [-2, 0]), "node 0 .* children"),
        (lambda: Tree.from_parents([-1, 0], [-1, 1]), "node 1 has class 1"),
        (
            lambda: Tree.from_parents([-1, 0, 0, 0], [-1, 1, 0, 1]),
            "node 1 and node 3 both have class 1",
        ),
        (lambda: Tree.from_paths([]), "paths is empty"),
        (lambda: Tree.from_paths([("a",), ()]), "class 1 is empty"),
        (lambda: Tree.from_paths(["a/b"]), "class 0 must be a tuple"),
        (lambda: Tree.from_paths([([],)]), "class 0 .* not hashable"),
        (
            lambda: Tree.from_paths([("a",), ("b",), ("a",)]),
            "class 0 and class 2 have the same path",
        ),
        (
            lambda: Tree.from_paths([("a",), ("a", "b")]),
            "path of class 0 is the beginning of the path of class 1",
        ),
        (
            lambda: Tree.from_paths([("x",), ("a", "b", "c"), ("a", "b")]),
            "path of class 2 is the beginning of the path of class 1",
        ),
        (lambda: Tree.from_nested(0), "must be a list"),
        (lambda: Tree.from_nested([]), "an empty list"),
        (lambda: Tree.from_nested([0, [1, []]]), "an empty list"),
        (lambda: Tree.from_nested([[], 0]), "an empty list"),
        (lambda: Tree.from_nested([0, 0.5]), "must be an integer, not 0.5"),
        (lambda: Tree.from_nested([0, -1]), "in nested_lists is -1"),
        (lambda: Tree.from_nested([0, [1, 0]]), "class 0 occurs twice"),
        (lambda: Tree.from_nested([0, 2]), "class 1 is missing"),
        (lambda: Tree.from_nested(NESTED_CYCLE), "a list inside itself"),
        (lambda: Tree([0, 2], [], [0, 1]), "at least one group"),
        (lambda: Tree([0, 1], [-1], []), "one class"),
        (lambda: Tree([0, 1, 2], [-1], [0]), "group_offsets has 3 entries"),
        (lambda: Tree([1, 2], [-1], [0]), r"group_offsets\[0\] is 1"),
        (lambda: Tree([0, 2, 2], [-1, 0], [1]), "group 1 is empty"),
        (lambda: Tree([0, 3], [-1], [0, 1]), "make 2 rows"),
        (lambda: Tree([0, 2], [0], [0, 1]), r"group_parents\[0\] is 0"),
        (
            lambda: Tree([0, 2, 4, 6], [-1, 1, 0], [2, 3, 4, 5]),
            "group 2 has parent row 0 and group 1 has 1",
        ),
        (
            lambda: Tree([0, 2, 4, 6], [-1, 0, 4], [1, 2, 3, 5]),
            "group 2 has parent row 4",
        ),
        (lambda: Tree([0, 2], [-1], [0, 2]), "class 1 has row 2"),
        (lambda: Tree([0, 2], [-1], [-1, 0]), "class 0 has row -1"),
        (lambda: Tree([0, 2], [-1], [1, 1]), "both class 0 and class 1"),
        (
            lambda: Tree([0, 2, 4], [-1, 0], [0, 1, 2]),
            "row 0 is both the leaf of class 0 and the parent of group 1",
        ),
        (lambda: Tree([0, 2], [-1], [0.0, 1.0]), "class_rows must hold int"),
        (lambda: Tree.two_level(9).expected_cost([1, 2]), "has 2 entries"),
        (lambda: Tree.two_level(2).expected_cost([0, 0]), "all counts are"),
        (lambda: Tree.two_level(2).expected_cost([1, -1]), "of class 1 is -1"),
    ],
)
def test_bad_arguments(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("c", [-1, 9, 2**70, 1.0, "a", None, True])
def test_path_of_a_bad_class(c):
    with pytest.raises(IndexError, match="class"):
        Tree.two_level(9).path(c)


def test_expected_cost_is_not_fooled_by_scale():
    tree = Tree.from_nested([0, [1, 2]])
    assert tree.expected_cost([1, 1, 0]) == 3.0
    assert tree.expected_cost([1e300, 1e300, 0]) == 3.0
    assert tree.expected_cost([5e-324, 5e-324, 0]) == 3.0


def test_equality_hash_and_copies():
    tree = Tree.huffman([5, 3, 1, 1])
    same = Tree.huffman([10, 6, 2, 2])
    assert tree == same and hash(tree) == hash(same) and tree is not same
    others = [Tree.huffman([5, 3, 1]), Tree.huffman([3, 5, 1, 1])]
    assert all(tree != other for other in others)
    assert tree != "tree" and tree is not None
    assert len({tree, same, *others}) == 3
    assert copy.copy(tree) is tree and copy.deepcopy([tree])[0] is tree
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(tree, protocol)) == tree


def test_immutable():
    tree = Tree.two_level(10)
    for name in ("depth", "class_rows", "row_groups", "new"):
        with pytest.raises(AttributeError, match=f"immutable.*{name}"):
            setattr(tree, name, 1)
        with pytest.raises(AttributeError, match=f"immutable.*{name}"):
            delattr(tree, name)
    with pytest.raises(ValueError, match="read-only"):
        tree.class_ranks[0] = 1
    mine = np.array([1, 0])
    tree = Tree([0, 2], [-1], mine)
    mine[:] = 7
    assert tree.class_rows.tolist() == [1, 0] and mine.flags.writeable


def test_repr_and_summary():
    tree = Tree.from_nested([[0, 1], [2, [3, 4]]])
    assert repr(tree) == (
        "Tree(num_classes=5, num_rows=8, num_groups=4, depth=3)"
    )
    assert tree.summary().splitlines() == [
        "Tree of 5 classes",
        "  8 rows in 4 groups",
        "  depth of a leaf, min / mean / max: 2 / 2.40 / 3",
        "  level 1, fanout min / mean / max: 2 / 2.00 / 2; groups: 1; "
        "leaves: 0",
        "  level 2, fanout min / mean / max: 2 / 2.00 / 2; groups: 2; "
        "leaves: 3",
        "  level 3, fanout min / mean / max: 2 / 2.00 / 2; groups: 1; "
        "leaves: 2",
        "  weights per unit of width: 8 (32 bytes in float32); biases: 8",
        "  tree arrays: 112 bytes",
    ]


def test_docstrings():
    assert doctest.testmod(tree_module).failed == 0


TREES = {
    "single": Tree.balanced(1, 2),
    "flat": Tree.balanced(300, 300),
    "balanced": Tree.balanced(1013, 7),
    "huffman": Tree.huffman(10**6 // np.arange(1, 400)),
    "chain": Tree.from_parents(np.arange(-1, 500)),
    "random": Tree.from_parents(random_parents(3)),
}


@pytest.mark.parametrize("name", TREES)
def test_round_trips(tmp_path, name):
    tree = TREES[name]
    path = tmp_path / "a tree"
    tree.save(path)
    assert Tree.load(path) == tree and Tree.load(str(path)) == tree
    assert [entry.name for entry in tmp_path.iterdir()] == ["a tree"]
    config = json.loads(json.dumps(tree.get_config()))
    assert Tree.from_config(config) == tree


def test_config_of_a_regular_tree_is_small():
    config = Tree.two_level(1_000_000).get_config()
    assert len(json.dumps(config)) < 10_000


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"group_offsets": None},
        {"class_rows": {"dtype": "<f8", "size": 1, "data": ""}},
        {"class_rows": {"dtype": "|i1", "size": 4, "data": "***"}},
        {"class_rows": {"dtype": "|i1", "size": 4, "data": "AAAA"}},
        {"class_rows": {"dtype": "none", "size": 4, "data": "AAAA"}},
        {"class_rows": {"dtype": "|i1", "size": -1, "data": "AAAA"}},
        {"class_rows": {"dtype": "|i1", "size": 1 << 99, "data": "AAAA"}},
        {"class_rows": {"dtype": "|i1", "data": "AAAA"}},
    ],
)
def test_bad_config(change):
    config = Tree.two_level(4).get_config()
    with pytest.raises(ValueError, match="not a config of"):
        Tree.from_config({**config, **change})
    with pytest.raises(ValueError, match="not a config of"):
        Tree.from_config({})


def test_config_of_another_length():
    config = Tree.two_level(4).get_config()
    for size in (3, 5):
        config["class_rows"]["size"] = size
        with pytest.raises(ValueError, match=f"{size} numbers"):
            Tree.from_config(config)


def test_load_refuses_other_files(tmp_path):
    path = tmp_path / "tree.npz"
    with pytest.raises(FileNotFoundError):
        Tree.load(path)
    tree = Tree.huffman(np.arange(20))
    tree.save(path)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"tree\.npz.*cut short"):
            Tree.load(path)
    path.write_bytes(pickle.dumps(tree))
    with pytest.raises(ValueError, match="foreign"):
        Tree.load(path)
    with open(path, "wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(ValueError, match="foreign"):
        Tree.load(path)
    np.savez(path, weights=np.arange(3))
    with pytest.raises(ValueError, match="foreign"):
        Tree.load(path)
    np.savez(path, format="another")
    with pytest.raises(ValueError, match="something else"):
        Tree.load(path)
    np.savez(path, format="tf_hsm.Tree", version=99)
    with pytest.raises(ValueError, match="version 99"):
        Tree.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("format.npy", b"garbage")
    with pytest.raises(ValueError, match="foreign"):
        Tree.load(path)


def test_load_survives_damage(tmp_path):
    path = tmp_path / "tree.npz"
    tree = Tree.huffman(np.arange(20))
    tree.save(path)
    whole = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for position in rng.choice(len(whole), 400, replace=False):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            assert Tree.load(path) == tree
        except ValueError as error:
            assert "tree.npz" in str(error)


@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch, moment):
    path = tmp_path / "tree.npz"
    old = Tree.two_level(100)
    old.save(path)

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    def write_some(file, **kwargs):
        file.write(b"half a file")
        interrupt()

    with monkeypatch.context() as patch:
        if moment == "write":
            patch.setattr("numpy.savez", write_some)
        else:
            patch.setattr(f"os.{moment}", interrupt)
        with pytest.raises(KeyboardInterrupt):
            Tree.two_level(200).save(path)
    assert Tree.load(path) == old
    assert [entry.name for entry in tmp_path.iterdir()] == ["tree.npz"]


def test_save_follows_a_link_and_keeps_to_the_umask(tmp_path):
    target = tmp_path / "folder" / "tree.npz"
    target.parent.mkdir()
    link = tmp_path / "link.npz"
    link.symlink_to(target)
    Tree.two_level(5).save(link)
    assert link.is_symlink() and Tree.load(target) == Tree.two_level(5)
    (tmp_path / "plain").touch()
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_every_pair_of_builders_agrees_on_a_binary_tree():
    trees = [
        Tree.balanced(4, 2),
        Tree.balanced(4, [2, 2]),
        Tree.two_level(4),
        Tree.huffman([1, 1, 1, 1]),
        Tree.from_parents([-1, 0, 0, 1, 1, 2, 2]),
        Tree.from_paths(itertools.product("ab", "ab")),
        Tree.from_nested([[0, 1], [2, 3]]),
    ]
    assert all(tree == trees[0] for tree in trees)
