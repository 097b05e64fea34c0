"""Trees that grow, or are made anew for other counts, against brute force."""

import collections
import functools
import itertools

import numpy as np
import pytest

from tests.support.tree_reference import (
    check,
    random_parents,
    to_nested,
)
from tests.support.trees import CATALOGUE, chain
from tf_hsm.tree import Tree, new_classes, pruned_tree

MAKERS = {**CATALOGUE, "chain_3000": lambda: chain(3000)}
build = functools.cache(lambda name: MAKERS[name]())


def nested_of(tree):
    """The classes as nested lists."""
    parents = np.append(-1, 1 + tree.group_parents[tree.row_groups])
    return to_nested(parents, np.append(-1, tree.row_classes))


def lists_of(nested):
    """All lists within a nested list, and itself, without recursion."""
    lists = [nested]
    for items in lists:
        lists += [item for item in items if isinstance(item, list)]
    return lists


def fanouts(tree):
    return np.diff(tree.group_offsets)


@pytest.mark.parametrize("name", CATALOGUE)
def test_near_classes(name):
    """Each new leaf is the last in the group of its old class."""
    tree = build(name)
    near = np.random.default_rng(0).integers(tree.num_classes, size=5)
    grown = tree.grow(5, near=near)
    nested = nested_of(tree)
    for c, old in enumerate(near.tolist(), tree.num_classes):
        next(x for x in lists_of(nested) if old in x).append(c)
    check(grown, nested)
    assert tree.grow(np.int64(5), near=near.tolist()) == grown


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize("name", CATALOGUE)
def test_branch(name, size):
    """One row of the root, with the Huffman tree of the counts below it."""
    tree = build(name)
    largest = max(2, fanouts(tree).max())
    counts = np.arange(size) ** 2
    for max_fanout in (None, 3):
        below = Tree.huffman(counts, branching=max_fanout or largest)
        new = nested_of(below) if size > 1 else 0

        def renumbered(item):
            if isinstance(item, list):
                return [renumbered(x) for x in item]
            return item + tree.num_classes

        nested = [*nested_of(tree), renumbered(new)]
        grown = tree.grow(counts, branch=True, max_fanout=max_fanout)
        check(grown, nested)


@pytest.mark.parametrize("size", [2, 5, 17, 4960, 5000])
def test_branch_without_counts(size):
    """As few levels as the fanout allows, with even groups."""
    tree = Tree.two_level(100)
    grown = tree.grow(size, branch=True, max_fanout=100)
    lengths = {len(grown.path(c)) for c in range(100, 100 + size)}
    assert max(lengths) == 1 + (1 if size <= 100 else 2)
    assert fanouts(grown).max() <= 100
    # Near the square root, so that no other even tree costs much less.
    of_branch = grown.group_parents >= grown.group_offsets[1] - 1
    assert fanouts(grown)[of_branch].max() <= max(size**0.5 + 1, min(size, 100))
    assert tree.grow(4, branch=True, max_fanout=2) == Tree.from_nested(
        [*nested_of(tree), [[100, 101], [102, 103]]]
    )


@pytest.mark.parametrize("max_fanout", [None, 4, 33])
@pytest.mark.parametrize("size", [1, 3, 8, 40])
@pytest.mark.parametrize("name", CATALOGUE)
def test_fullest_fitting_groups(name, size, max_fanout):
    """The fewest groups of leaves, the last the fullest; else a branch."""
    tree = build(name)
    most = max_fanout or max(2, fanouts(tree).max())
    grown = tree.grow(size, max_fanout=max_fanout)
    lists = lists_of(nested_of(tree))
    rooms = sorted(
        most - len(items)
        for items in lists
        if len(items) < most and not any(isinstance(x, list) for x in items)
    )
    if sum(rooms) < size:
        assert grown == tree.grow(size, branch=True, max_fanout=most)
        return
    rows = grown.class_rows[tree.num_classes :]
    groups, added = np.unique(grown.row_groups[rows], return_counts=True)
    assert fanouts(grown)[groups].max() <= most
    assert (grown.row_classes[rows] >= 0).all()
    for group in groups:
        begin, end = grown.group_offsets[group : group + 2]
        assert (grown.row_children[begin:end] < 0).all()
    fewest = 1 + np.searchsorted(np.cumsum(rooms[::-1]), size)
    assert len(groups) == fewest
    left = most - fanouts(grown)[groups]
    assert np.count_nonzero(left) <= 1
    # No other group would have been fuller after it.
    (rest,) = added[left > 0] if left.any() else [added.min()]
    assert left.max() == min(room for room in rooms if room >= rest) - rest


@pytest.mark.parametrize("options", [{}, {"branch": True}, {"near": [0] * 7}])
@pytest.mark.parametrize("name", MAKERS)
def test_paths_and_groups_stay(name, options):
    """Without its new rows it is the old tree; they end their groups."""
    tree = build(name)
    grown = tree.grow(7, **options)
    is_old = np.arange(grown.num_classes) < tree.num_classes
    without = pruned_tree.prune(grown, is_old, "drop")
    assert without.tree == tree
    rows = np.full(grown.num_rows, -1)
    rows[without.rows] = np.arange(tree.num_rows)
    np.testing.assert_array_equal(grown.map_rows(tree), rows)
    is_in_group = np.diff(grown.row_groups) == 0
    assert not (is_in_group & (rows[:-1] < 0) & (rows[1:] >= 0)).any()


def chains_below(tree, num_old, from_top=False):
    """For each row the old classes below it, and its number from the leaf.

    Or its number from the root.
    """
    below = collections.defaultdict(set)
    for c in range(num_old):
        for row in tree.path(c):
            below[row].add(c)
    seen = collections.Counter()
    result = {}
    for row in range(tree.num_rows)[:: 1 if from_top else -1]:
        classes = frozenset(below[row])
        result[row] = (classes, seen[classes])
        seen[classes] += 1
    return result


@pytest.mark.parametrize("from_top", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_map_of_rows(seed, from_top):
    """Any two trees, by the sets of classes below their rows."""
    rng = np.random.default_rng(seed)
    old = Tree.from_parents(random_parents(seed))
    if seed % 2:  # A tree that shares much with the old one.
        new = old.grow(3, near=rng.integers(old.num_classes, size=3))
        nested = nested_of(new)
        for items in lists_of(nested):
            rng.shuffle(items)
            if len(items) > 3:
                items[:2] = [items[:2]]
        new = Tree.from_nested(nested)
    else:
        new = Tree.huffman(rng.random(old.num_classes + 4), branching=3)
    old_keys, new_keys = (
        chains_below(tree, old.num_classes, from_top) for tree in (old, new)
    )
    old_rows = {key: row for row, key in old_keys.items()}
    expected = [
        old_rows.get(key, -1) if key[0] else -1
        for _, key in sorted(new_keys.items())
    ]
    np.testing.assert_array_equal(
        new.map_rows(old, from_top=from_top), expected
    )


@pytest.mark.parametrize("name", CATALOGUE)
def test_rebalance(name):
    tree = build(name)
    counts = np.random.default_rng(0).permutation(tree.num_classes) ** 3 + 1
    better = tree.rebalance(counts)
    branching = min(256, max(2, fanouts(tree).max()))
    assert better == Tree.huffman(counts, branching=branching)
    rows = better.map_rows(tree)
    np.testing.assert_array_equal(rows[better.class_rows], tree.class_rows)
    assert tree.rebalance(counts, branching=3) == Tree.huffman(
        counts, branching=3
    )


def test_rebalance_keeps_names():
    tree = Tree.from_paths(
        [("pet", "cat"), ("pet", "dog"), ("tree", "oak"), ("tree", "elm")]
    )
    better = tree.rebalance({"cat": 5, "dog": 5, "elm": 9, "oak": 8})
    classes = better.class_of(["cat", "dog", "oak", "elm"])
    assert classes.tolist() == [0, 1, 2, 3]
    # Both are binary trees in which cat and dog, and oak and elm, are together.
    assert sorted(better.names) == sorted(tree.names)
    assert better.path_names(0) == ["pet", "cat"]
    assert sorted(better.map_rows(tree)) == list(range(6))
    same = tree.rebalance({"oak": 1})
    assert same == tree.rebalance([0, 0, 1, 0])


@pytest.mark.parametrize("at_a_time", [1 << 24, 70])
def test_nearest_vectors(at_a_time, monkeypatch):
    """By brute force; an old class without a direction is near to none."""
    monkeypatch.setattr(new_classes, "_SCORES", at_a_time)
    rng = np.random.default_rng(0)
    tree = Tree.two_level(31)
    vectors = rng.normal(size=[31 + 12, 5])
    vectors[[3, 30]] = 0
    vectors[-1] = 1e200 * vectors[7]
    grown = tree.grow(12, near=vectors)
    unit = vectors / np.maximum(
        np.linalg.norm(vectors.astype(np.longdouble), axis=1), 1e-9
    ).reshape(-1, 1)
    cosines = unit[31:] @ unit[:31].T
    cosines[:, [3, 30]] = -np.inf
    assert grown == tree.grow(12, near=np.argmax(cosines, axis=1))
    lonely = tree.grow(2, near=np.eye(33)[:, 31:])
    assert lonely == tree.grow(2, near=[0, 0])


def test_names():
    words = {"the": 60, "of": 30, "cat": 9, "dog": 7, "elm": 1}
    tree = Tree.from_counts(words, branching=2)
    new = collections.Counter({"oak": 3, "fir": 2, "né": 1})
    grown = tree.grow(new, near=tree.class_of(["elm", "dog", "cat"]))
    wanted = [*words, *new]
    assert [grown.class_name(c) for c in range(8)] == wanted
    assert grown.class_of(wanted).tolist() == list(range(8))
    as_list = tree.grow(list(new), near=[4, 3, 2])
    assert as_list == grown and list(as_list.names) == list(grown.names)
    branch = tree.grow(new, branch=True)
    assert [branch.class_name(c) for c in range(8)] == wanted
    # Inner rows keep theirs.
    animals = Tree.from_paths([("pet", "cat"), ("plant", "tree", "oak")])
    grown = animals.grow(["dog", "elm"], near=[0, 1])
    assert grown.path_names(2) == ["pet", "dog"]
    assert grown.path_names(3) == ["plant", "tree", "elm"]
    # Trees without names on either side.
    assert Tree.two_level(9).grow(2).names is None
    assert grown.grow(1).class_name(4) == ""
    named = Tree.two_level(9).grow(["new"])
    assert named.class_of("new") == 9 and named.class_name(0) == ""


NAMED = Tree.from_counts({"the": 60, "of": 30, "cat": 1})


OTHER = Tree.from_counts({"the": 2, "dog": 1}).grow(2)


@pytest.mark.parametrize(
    "function, argument, error, message",
    [
        (NAMED.rebalance, [1, 2], ValueError, "counts has 2 entries"),
        (NAMED.rebalance, [1, 2, -1], ValueError, "class 2 is -1"),
        (NAMED.rebalance, {"dog": 2}, KeyError, "no class is named"),
        (NAMED.rebalance, {"of": -2}, ValueError, "class 1 is -2"),
        (NAMED.rebalance, {"of": 1, 0: 1}, TypeError, "is a str, not 0"),
        (Tree.two_level(3).rebalance, {"of": 1}, ValueError, "has the key"),
        (
            lambda k: NAMED.rebalance([1, 2, 3], branching=k),
            *(1, ValueError, "branching is 1"),
        ),
        (NAMED.map_rows, 7, TypeError, "before must be a tf_hsm.Tree"),
        (
            NAMED.map_rows,
            Tree.two_level(4),
            ValueError,
            "3 .* fewer than the 4",
        ),
        (OTHER.map_rows, NAMED, ValueError, "1 is named 'dog', but was 'of'"),
    ],
    ids=itertools.count(),
)
def test_hostile_maps(function, argument, error, message):
    with pytest.raises(error, match=message):
        function(argument)
