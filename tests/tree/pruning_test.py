"""Trees for fewer classes, against brute force on nested lists."""

import itertools

import numpy as np
import pytest

from tests.support.tree_reference import check, random_parents
from tests.support.trees import CATALOGUE, chain
from tf_hsm.tree import Tree

build = {name: make() for name, make in CATALOGUE.items()}.get


def nodes_of(tree, group=0):
    """The tree as lists of `(row, below)`: such a list, or a set of a class."""
    nodes = []
    for row in range(*tree.group_offsets[group : group + 2]):
        child = tree.row_children[row]
        below = {int(tree.row_classes[row])}
        nodes.append((row, below if child < 0 else nodes_of(tree, child)))
    return nodes


def classes_of(below):
    if isinstance(below, set):
        return below
    return set().union(*(classes_of(nodes) for _, nodes in below))


def merged(nodes, keep):
    """The nodes, where those without kept classes are leaves."""
    result = []
    for row, below in nodes:
        if isinstance(below, list):
            has_kept = classes_of(below) & keep
            below = merged(below, keep) if has_kept else classes_of(below)
        result.append((row, below))
    return result


def dropped(nodes, keep):
    """The nodes with kept classes; a node of one child has the child's."""
    result = []
    for row, below in nodes:
        if not classes_of(below) & keep:
            continue
        if isinstance(below, list):
            below = dropped(below, keep)
            if len(below) == 1:
                below = below[0][1]
        result.append((row, below))
    return result


def brute_force(tree, keep, merge):
    """The nested lists of a pruned tree, its rows, and the map of classes."""
    keep = set(np.flatnonzero(keep).tolist())
    nodes = (merged if merge else dropped)(nodes_of(tree), keep)
    if not merge and len(nodes) == 1 and isinstance(nodes[0][1], list):
        nodes = nodes[0][1]
    queue, rows, leaves = [nodes], [], []
    for nodes_of_group in queue:
        for row, below in nodes_of_group:
            rows.append(row)
            if isinstance(below, list):
                queue.append(below)
            else:
                leaves.append(below)
    kept = sorted((x for x in leaves if x <= keep), key=min)
    numbers = [*kept, *(x for x in leaves if not x <= keep)]
    classes = np.full(tree.num_classes, -1)
    for number, leaf in enumerate(numbers):
        classes[list(leaf)] = number

    def nested(nodes):
        return [
            nested(below) if isinstance(below, list) else numbers.index(below)
            for _, below in nodes
        ]

    return nested(nodes), rows, classes


def kept(tree, how, seed=0):
    """A mask: frequent classes, scattered ones, one, nearly all, or all."""
    rng = np.random.default_rng(seed)
    mask = np.zeros(tree.num_classes, bool)
    if how == "frequent":
        mask[: max(1, tree.num_classes // 3)] = True
    elif how == "scattered":
        mask[rng.permutation(tree.num_classes)[: 1 + tree.num_classes // 9]] = 1
    elif how == "one":
        mask[rng.integers(tree.num_classes)] = True
    else:
        mask[:] = True
    if how == "nearly all":
        mask[rng.integers(tree.num_classes)] = tree.num_classes == 1
    return mask


HOW = ["frequent", "scattered", "one", "nearly all", "all"]


def check_pruned(tree, keep, merge):
    nested, rows, classes = brute_force(tree, keep, merge)
    if merge and len(rows) == tree.num_rows and not keep.all():
        with pytest.raises(ValueError, match="no removed classes can merge"):
            tree.prune(keep)
        return None
    pruned = tree.prune(keep, merge=merge)
    check(pruned.tree, nested)
    np.testing.assert_array_equal(pruned.classes, classes)
    if keep.sum() > 1 or merge:  # else the row means nothing
        np.testing.assert_array_equal(pruned.rows, rows)
    assert pruned.rows.shape == (pruned.tree.num_rows,)
    assert pruned.classes.dtype == pruned.rows.dtype == np.int64
    return pruned


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_shape(name, how, merge):
    tree = build(name)
    check_pruned(tree, kept(tree, how), merge)


@pytest.mark.parametrize("seed", range(40))
def test_random_trees(seed):
    tree = Tree.from_parents(random_parents(seed))
    for how, merge in itertools.product(HOW, [True, False]):
        check_pruned(tree, kept(tree, how, seed), merge)


def test_deep_chain():
    """Nothing recurs, and what is left is a short tree."""
    tree = chain(3000)
    few = tree.prune([0, 2000, 3000], merge=False)
    # An inner node stands before the leaf beside it.
    assert few.tree == Tree.from_nested([[2, 1], 0])
    assert tree.prune([0, 1, 2]).tree.num_classes == 4


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("how", ["frequent", "scattered", "nearly all"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: Tree.huffman(10**6 // np.arange(1, 204)),
        lambda: Tree.balanced(37, 2),
    ],
    ids=["huffman", "balanced"],
)
def test_pinned_trees_stay_pinned(make, how, merge):
    tree = make()
    keep = kept(tree, how)
    try:
        expected = tree.prune(keep, merge=merge)
    except ValueError:
        with pytest.raises(ValueError, match="no removed classes can merge"):
            tree.pin().prune(keep, merge=merge)
        return
    pruned = tree.pin().prune(keep, merge=merge)
    assert pruned.tree == expected.tree.pin()
    np.testing.assert_array_equal(pruned.rows, expected.rows)
    # Both rows of a group are the rows of one group.
    pairs = pruned.rows.reshape(-1, 2)
    assert (pairs[:, 0] % 2 == 0).all()
    np.testing.assert_array_equal(pairs[:, 1], pairs[:, 0] + 1)


def test_a_pinned_tree_of_one_class():
    tree = Tree.balanced(8, 2).pin()
    assert tree.prune([3]).tree.num_classes == 4
    with pytest.raises(ValueError, match="keep has a single class"):
        tree.prune([3], merge=False)


COUNTS = np.array([5, 40, 1, 40, 0, 7, 3, 2])
TREE = Tree.from_nested([0, 1, [2, 3], [4, [5, 6, 7]]]).with_counts(COUNTS)


@pytest.mark.parametrize(
    "keep, classes",
    [
        (1, [1]),
        (np.int64(2), [1, 3]),
        (np.array(4), [0, 1, 3, 5]),
        (8, range(8)),
        (0.25, [1, 3]),
        (np.float32(0.5), [0, 1, 3, 5]),
        (0.01, [1]),
        (0.99, range(8)),
        (COUNTS >= 5, [0, 1, 3, 5]),
        ([True, False] * 4, [0, 2, 4, 6]),
        ([7, 0, 2], [0, 2, 7]),
        (range(3), [0, 1, 2]),
        (np.array([6], np.uint8), [6]),
    ],
    ids=itertools.count(),
)
def test_forms_of_keep(keep, classes):
    """The first of equally frequent classes stay; K are in any order."""
    pruned = TREE.prune(keep, merge=False)
    assert pruned.tree.num_classes == len(classes)
    np.testing.assert_array_equal(np.flatnonzero(pruned.classes >= 0), classes)
    np.testing.assert_array_equal(
        pruned.classes[list(classes)], np.arange(len(classes))
    )


def test_counts_that_are_given():
    """Given counts choose the classes; the tree keeps its own counts."""
    pruned = TREE.prune(2, merge=False, counts=np.arange(8))
    assert pruned.tree.counts.tolist() == [3, 2]
    for keep, counts, message in (
        (2, None, "keep asks for the 2 most frequent classes, but the tree"),
        (0.5, None, "keep asks for the 4 most frequent"),
        (2, [1, 2], "counts has 2 entries; the tree has 8"),
        (2, [-1] * 8, "count of class 0 is -1"),
        ([0, 2], [1, 2], "counts has 2 entries"),
    ):
        with pytest.raises(ValueError, match=message):
            TREE.with_counts(None).prune(keep, counts=counts)


def test_counts_of_merged_classes():
    """They are sums, of the type that the counts have."""
    merged = TREE.prune([0, 3]).tree
    # 0 and 3; then 1, 2 of the kept groups, and the node above 4 to 7.
    assert merged.counts.tolist() == [5, 40, 40, 12, 1]
    assert merged.counts.dtype == np.int64
    assert merged.counts.sum() == COUNTS.sum()
    halves = TREE.with_counts(COUNTS / 2).prune([0, 3]).tree
    assert halves.counts.tolist() == [2.5, 20, 20, 6, 0.5]
    assert TREE.with_counts(None).prune([0, 3]).tree.counts is None


def test_names():
    tree = Tree.from_paths(
        [
            ("pet", "cat"),
            ("pet", "dog"),
            ("plant", "tree", "oak"),
            ("plant", "tree", "elm"),
            ("plant", "moss"),
        ]
    )
    merged = tree.prune([0, 4])
    assert merged.tree.class_name(range(4)).tolist() == [
        *("cat", "moss", "dog", "tree")
    ]
    assert merged.tree.path_names(3) == ["plant", "tree"]
    assert merged.classes.tolist() == [0, 2, 3, 3, 1]
    dropped = tree.prune([0, 2, 4], merge=False)
    assert dropped.tree.class_name(range(3)).tolist() == ["cat", "oak", "moss"]
    # The row of "pet" is the leaf of the cat.
    assert dropped.tree.path_names(0) == ["cat"]
    assert tree.names[dropped.rows[dropped.tree.class_rows[0]]] == "pet"
    assert dropped.tree.path_names(1) == ["plant", "oak"]
    assert tree.prune([3], merge=False).tree.path_names(0) == ["elm"]
    assert Tree.two_level(9).prune([1], merge=False).tree.names is None


def test_pruned_trees_are_trees():
    pruned = TREE.prune([0, 3]).tree
    again = pruned.prune(2, merge=False)
    assert again.tree == Tree.from_nested([1, 0])
    assert pruned.grow(["new"]).class_of("new") == pruned.num_classes
