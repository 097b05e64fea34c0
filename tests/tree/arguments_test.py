"""Bad arguments, and a tree as a value."""

import copy
import doctest
import re

import numpy as np
import pytest

from tests.support.series import Series
from tf_hsm.tree import Tree, constructors, tree
from tf_hsm.tree.names import Names

NESTED_CYCLE = [0]
NESTED_CYCLE.append([1, NESTED_CYCLE])


class Sparse:
    """What tells a matrix of SciPy."""

    shape = 1, 3
    tocsr = None


def parents_and_classes(parents, classes):
    return Tree.from_parents(parents, classes=classes)


def grown(classes, near=None, branch=False, max_fanout=None):
    NAMED.grow(classes, near=near, branch=branch, max_fanout=max_fanout)


def cost_of(num_classes, counts):
    return Tree.two_level(num_classes).expected_cost(counts)


def rows_of_names(names):
    return Tree([0, 2], [-1], [0, 1], names=names)


def nodes_of_names(names):
    return Tree.from_parents([-1, 0, 0], names=names)


def packed(utf8=b"ab\xc3\xa9", offsets=(0, 1, 4)):
    return Names(np.frombuffer(utf8, np.uint8), np.array(offsets))


MAPPINGS = [
    ({}, "counts is empty"),
    ({"a": 1, 2: 3}, "has the key 'a'; the keys must all be integers"),
    ({2: 3, "a": 1}, "has the key 'a'"),
    ({None: 1}, "has the key None"),
    ({True: 1, 0: 2}, "has the key True"),
    ({0.0: 1}, r"has the key 0\.0"),
    ({1: 1, 2: 2}, "has no key 0; 2 integer keys must be the classes 0 to"),
    ({0: 1, 2: 2}, "has no key 1"),
    ({0: 1, -1: 2}, "has no key 1"),
    (Series(["a", "b", "a"], [1, 2, 3]), "has 'a' twice"),
    (Series([0, 0], [1, 2]), "has no key 1"),
    ({"a": -1}, "count of class 0 is -1"),
    ({"a": 2**70}, "must hold numbers"),
    ({"a": None}, "must hold numbers"),
    ({"a": True}, "must hold numbers"),
    ({"a", "b"}, "must have rank 1"),
]
BARE = Tree.two_level(3)
NAMED = Tree.from_counts({"the": 60, "of": 30, "cat": 1})
# Eight classes; each group has a row of 0, 2 or 5.
NESTED = Tree.from_nested([0, 1, [2, 3], [4, [5, 6, 7]]]).with_counts([1] * 8)
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
        *MAPPINGS,
    ],
    Tree.adaptive: MAPPINGS,
    Tree.from_counts: MAPPINGS,
    lambda counts: Tree.from_counts(counts, names=["a"]): [
        ({"a": 1}, "names are the keys"),
        ([1, 2], "has 1 entries; there must be"),
    ],
    lambda branching: Tree.huffman([1, 2], branching=branching): [
        (1, "branching is 1"),
    ],
    Tree.from_parents: [
        (Sparse(), "give the parent of each node"),
        ([], "parents is empty"),
        ([-1], "node 0 is the root and has no"),
        ([[0]], "must have rank 1"),
        ([-1.0, 0.0], "must hold integers"),
        ([-1, None], "must hold integers"),
        ([0, 0], "no root: there must be a node with parent -1"),
        ([1, 0], "no root: there must be a node with parent -1"),
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
        (Sparse(), "give a list of keys for each class"),
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
        (np.array([["a", ""], ["", "b"]]), "class 1 has '' at 0, before a key"),
        (np.array([[1, -1], [-1, 2]]), "class 1 has -1 at 0, before a key"),
        (np.array([[-1]]), "path of class 0 is empty"),
        (np.zeros([0, 2]), "paths is empty"),
        (np.zeros([2, 0]), "path of class 0 is empty"),
        (np.zeros([2, 2, 2]), "paths must be a list .* or an array"),
        (np.array(5), "paths must be"),
        (np.array(["a", "b"]), "path of class 0 must be a tuple"),
        *((x, "paths must be") for x in (5, None, 2.5, "ab", b"ab")),
        # These have no order, or no paths.
        ({("a",), ("b",)}, "paths must be"),
        ({("a",): 0}, "paths must be"),
        ([float("nan")], "path of class 0 must be a tuple of keys, not nan"),
        ([5], "path of class 0 must be a tuple"),
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
        ({}, "an empty dict"),
        ({"a": {}}, "an empty dict for 'a'; .* or None in a dict"),
        ({"a": []}, "an empty list"),
        ({0: [1]}, "the key 0; a key is a name, a str"),
        ({"a": 0, "b": None}, "the leaf 'b' among leaves of the other kind"),
        (["x", 0], "the leaf 0 among leaves of the other kind"),
        ([0, "x"], "the leaf 'x' among"),
        ([None], "must be an integer, not None"),
        ({"a": "x"}, "must be an integer, not 'x'"),
        ({"a": True}, "must be an integer, not True"),
        ({"a": 1, "b": 1}, "class 1 occurs twice"),
        ("abc", "must be a list or a dict, not str"),
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
    nodes_of_names: [
        (["r", "a", 3], "name of node 2 must be a str, not 3"),
        (["r", "a"], "2 entries; .* for each node, which are 3"),
        ("ran", "list of strs, not 'ran'"),
        (7, "strs, not a int"),
    ],
    rows_of_names: [
        (["a", None], "name of row 1 must be a str, not None"),
        (packed(offsets=(0, 4)), "1 names for 2 rows"),
        (packed(offsets=(1, 2, 4)), "bytes 1 to 4 of 4"),
        (packed(offsets=(0, 2, 3)), "bytes 0 to 3 of 4"),
        (packed(offsets=(0, 5, 4)), "row 1 is cut"),
        (packed(offsets=(0, -1, 4)), "row 0 is cut"),
        (packed(offsets=(0, 3, 4)), "row 1 is cut"),
        (packed(b"\xff", (0, 0, 1)), "not UTF-8"),
        (packed(offsets=(0.0, 1.0, 4.0)), "must hold integers"),
        (
            Names(np.zeros(4, np.int64), np.array([0, 1, 4])),
            "not bytes",
        ),
    ],
    BARE.with_class_names: [
        (["a", b"b", "c"], "class 1 must .* not b'b'"),
        (["a"], "1 entries; .* each class, which are 3"),
        (None, "a NoneType"),
        (np.arange(3), "class 0 must be a str, not 0"),
        (np.array([["a"]] * 3), r"str, not \['a'\]"),
    ],
    BARE.class_name: [
        (0, "the tree has no names"),
        ([0], "the tree has no names"),
    ],
    BARE.path_names: [(0, "the tree has no names")],
    BARE.with_counts: [
        ([1, 2], "has 2 entries"),
        ([1, -1, 1], "count of class 1 is -1"),
    ],
    grown: [
        (0, "classes is 0; it must be at least 1"),
        (-3, "classes is -3"),
        (True, "classes must be an integer, not True"),
        (2.0, "classes must be the number of new ones"),
        (None, "classes must be the number"),
        ("dog", "classes must be the number .*'dog'"),
        (b"dog", "classes must be the number"),
        ({"dog"}, "classes must be the number"),
        ([], "classes is empty"),
        ({}, "classes is empty"),
        (np.zeros(0), "classes is empty"),
        (["dog", 3], "name of new class 1 must be a str, not 3"),
        (["dog", "dog"], "new class 1 is named 'dog', as another"),
        (["dog", "of"], "new class 1 is named 'of', as another"),
        ({"dog": 1, "cat": 2}, "new class 1 is named 'cat'"),
        ({3: 1}, "name of new class 0 must be a str, not 3"),
        ({"dog": -1}, "count of class 0 is -1"),
        ([1, np.nan], "count of class 1 is nan"),
        ([[1], [2, 3]], "counts must be a list of numbers"),
        (np.ones([2, 2]), "counts must have rank 1"),
        (2, [0], "near has 1 entries; .* each of the 2 new"),
        (2, [0, 3], re.escape("near[1] is 3; the old classes are 0 to 2")),
        (2, [-1, 0], re.escape("near[0] is -1")),
        (2, [0.5, 1], "near must hold integers"),
        (2, ["of", "the"], "near must hold integers"),
        (2, 1, "near must have rank 2"),
        (2, [[1], [1, 2]], "near must be a list of old classes, or"),
        (2, np.ones([4, 3]), "near has 4 vectors; .* 3 old .* 2 new"),
        (2, np.ones([5, 0]), "near has shape"),
        (2, np.full([5, 2], np.nan), "vector of class 0 has nan"),
        (2, np.eye(5)[:, :4], "vector of class 4 is zeros"),
        (2, np.full([5, 2], "x"), "near must hold numbers"),
        (2, [0, 1], True, "near says where .* leave out branch"),
        (2, [0, 1], False, 9, "near says where .* leave out branch"),
        (2, None, True, 1, "max_fanout is 1; it must be at least 2"),
        (2, None, False, "9", "max_fanout must be an integer"),
        (10**13, "such a tree needs .* GB of memory"),
    ],
    NESTED.prune: [
        (0, "keep is 0; it must be at least 1"),
        (-2, "keep is -2"),
        (9, "keep is 9; the tree has 8 classes"),
        (1.0, "keep is 1.0; a fraction of the classes is between 0 and 1"),
        (0.0, "keep is 0.0; a fraction"),
        (-0.5, "keep is -0.5; a fraction"),
        (float("nan"), "keep is nan; a fraction"),
        (True, "keep must be a number of classes, a fraction"),
        (None, "keep must be a number of classes"),
        ("the", "keep must be a number of classes.*not 'the'"),
        (["the"], "keep must be a number of classes"),
        ({1, 2}, "keep must be a number of classes"),
        ([[1, 2]], "keep must be a number of classes"),
        ([[1], [1, 2]], "keep must be a number of classes"),
        ([], "keep is empty"),
        ([True, False], "keep has 2 bools; the tree has 8 classes"),
        ([False] * 8, "keep is False everywhere"),
        ([0.5, 1.0], "keep must hold integers, not float64"),
        ([0, 8], re.escape("keep[1] is 8; the classes are 0 to 7")),
        ([-1, 2], re.escape("keep[0] is -1")),
        ([2, 3, 2], "keep has class 2 twice"),
        ([0, 2, 5], "no removed classes can merge; pass merge=False"),
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
