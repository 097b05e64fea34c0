"""Bad arguments, and a tree as a value."""

import copy
import doctest

import numpy as np
import pytest

from tf_hsm.tree import Tree, constructors, tree

NESTED_CYCLE = [0]
NESTED_CYCLE.append([1, NESTED_CYCLE])


def parents_and_classes(parents, classes):
    return Tree.from_parents(parents, classes=classes)


def cost_of(num_classes, counts):
    return Tree.two_level(num_classes).expected_cost(counts)


# For each function, its arguments and the message about them.
REFUSED = {
    Tree.balanced: [
        (0, 2, "num_classes is 0"),
        (2.0, 2, "num_classes must be an integer"),
        (True, 2, "num_classes must be an integer"),
        (5, 1, "branching is 1"),
        (5, "x", "branching must be an integer"),
        (5, [2, 0], r"branching\[1\] is 0"),
        (5, [2, 2], "reaches 4 leaves; there are 5"),
        (5, [], "reaches 0 leaves"),
    ],
    Tree.two_level: [
        (-1, "num_classes is -1"),
        *(
            (size, "num_classes must be an integer")
            for size in (2.0, np.float64(2), np.nan, "2", None, [2], np.True_)
        ),
    ],
    Tree.huffman: [
        ([], "counts is empty"),
        ([[1, 2]], r"its shape is \[1, 2\]"),
        ([[1], [2, 3]], "list of numbers"),
        (["a"], "must hold numbers"),
        ([True], "must hold numbers"),
        ([None], "must hold numbers"),
        ([1, -2, -3], "count of class 1 is -2"),
        ([1, 2, np.nan], "count of class 2 is nan"),
        ([np.inf, 1], "count of class 0 is inf"),
        ([2**62, 2**62], r"less than 2\*\*63"),
        (np.array([2**64 - 1, 1], np.uint64), r"less than 2\*\*63"),
        ([1e308, 1e308], "more than a float64"),
    ],
    lambda branching: Tree.huffman([1, 2], branching=branching): [
        (1, "branching is 1"),
    ],
    Tree.from_parents: [
        ([], "parents is empty"),
        ([-1], "node 0 is the root and has no"),
        ([[0]], "must have rank 1"),
        ([-1.0, 0.0], "must hold integers"),
        ([-1, None], "must hold integers"),
        ([0, 0], "no node has parent -1"),
        ([1, 0], "no node has parent -1"),
        ([-1, 0, -1], "node 0 and node 2 both"),
        ([-1, 0, 3], "node 2 has parent 3"),
        ([-1, -2], "node 1 has parent -2"),
        (
            np.array([0, 2**63], np.uint64),
            r"parents\[1\] is 9223372036854775808",
        ),
        ([-1, 0, 2], "ancestor: 2 -> 2$"),
        ([-1, 0, 4, 2, 3, 4], "ancestor: 2 -> 4 -> 3 -> 2$"),
        ([-1, 0, *range(3, 20), 2], r"ancestor: 2 -> 3 -> .* -> \.\.\.$"),
    ],
    parents_and_classes: [
        ([-1, 0], [0], "classes has 1 entries"),
        ([-1, 0], [0, 0], "node 0 has class 0"),
        ([-1, 0], [-1, -1], "node 1 .* is a leaf"),
        ([-1, 0], [-2, 0], "node 0 .* children"),
        ([-1, 0], [-1, 1], "node 1 has class 1"),
        ([-1, 0, 0, 0], [-1, 1, 0, 1], "node 1 and node 3 both have class 1"),
    ],
    Tree.from_paths: [
        ([], "paths is empty"),
        ([("a",), ()], "class 1 is empty"),
        (["a/b"], "class 0 must be a tuple"),
        ([([],)], "class 0 .* not hashable"),
        ([("a",), ("b",), ("a",)], "class 0 and class 2 have the same path"),
        ([("a",), ("a", "b")], "class 0 is the beginning of .* class 1"),
        (
            [("x",), ("a", "b", "c"), ("a", "b")],
            "class 2 is the beginning of the path of class 1",
        ),
    ],
    Tree.from_nested: [
        (0, "must be a list"),
        ([], "an empty list"),
        ([0, [1, []]], "an empty list"),
        ([[], 0], "an empty list"),
        ([0, 0.5], "must be an integer, not 0.5"),
        ([0, -1], "in nested_lists is -1"),
        ([0, [1, 0]], "class 0 occurs twice"),
        ([0, 2], "class 1 is missing"),
        (NESTED_CYCLE, "a list inside itself"),
    ],
    Tree: [
        ([0, 2], [], [0, 1], "at least one group"),
        ([0, 1], [-1], [], "one class"),
        ([0, 1, 2], [-1], [0], "group_offsets has 3 entries"),
        ([1, 2], [-1], [0], r"group_offsets\[0\] is 1"),
        ([0, 2, 2], [-1, 0], [1], "group 1 is empty"),
        ([0, 3], [-1], [0, 1], "make 2 rows"),
        ([0, 2], [0], [0, 1], r"group_parents\[0\] is 0"),
        (
            *([0, 2, 4, 6], [-1, 1, 0], [2, 3, 4, 5]),
            "group 2 has parent row 0 and group 1 has 1",
        ),
        ([0, 2, 4, 6], [-1, 0, 4], [1, 2, 3, 5], "group 2 has parent row 4"),
        ([0, 2], [-1], [0, 2], "class 1 has row 2"),
        ([0, 2], [-1], [-1, 0], "class 0 has row -1"),
        ([0, 2], [-1], [1, 1], "both class 0 and class 1"),
        (
            *([0, 2, 4], [-1, 0], [0, 1, 2]),
            "row 0 is both the leaf of class 0 and the parent of group 1",
        ),
        ([0, 2], [-1], [0.0, 1.0], "class_rows must hold int"),
    ],
    cost_of: [
        (9, [1, 2], "has 2 entries"),
        (2, [0, 0], "all counts are"),
        (2, [1, -1], "of class 1 is -1"),
    ],
}


@pytest.mark.parametrize(
    "function, arguments, message",
    [
        (function, arguments, message)
        for function, cases in REFUSED.items()
        for *arguments, message in cases
    ],
)
def test_bad_arguments(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)


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


def test_subclasses():
    class Oak(Tree):
        pass

    tree = Oak.huffman([1, 2, 3]).grow(1)
    assert type(tree) is type(tree.balanced(3, 2)) is Oak


@pytest.mark.parametrize("module", [tree, constructors])
def test_docstrings(module):
    result = doctest.testmod(module, extraglobs={"Tree": Tree})
    assert result.attempted and not result.failed
