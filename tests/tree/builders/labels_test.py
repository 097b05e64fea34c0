"""Builders that take names: mappings, graphs, nested dicts, rows of arrays."""

import collections

import numpy as np
import pytest

from tests.support.series import Series
from tests.support.tree_reference import random_parents
from tf_hsm.tree import Tree

WORDS = ["the", "cat", "and", "the", "dog", "and", "the", "end"]
COUNTS = [3, 1, 2, 1, 1]
NAMES = ["the", "cat", "and", "dog", "end"]


class DiGraph:
    """What the builders use of a `networkx.DiGraph`."""

    def __init__(self, edges):
        self.pred = {node: {} for edge in edges for node in edge}
        for parent, child in edges:
            self.pred[child][parent] = {}
        self.nodes = self.pred.keys()


class DataFrame:
    """What the builders use of a `pandas.DataFrame`."""

    ndim = 2

    def __init__(self, rows):
        self._rows = np.array(rows, object)
        self.shape = self._rows.shape

    def __array__(self, dtype=None, copy=None):
        return self._rows


MAPPINGS = {
    "Counter": collections.Counter(WORDS),
    "dict": dict(zip(NAMES, COUNTS, strict=True)),
    "Series": Series(NAMES, COUNTS),
}


@pytest.mark.parametrize("mapping", MAPPINGS.values(), ids=MAPPINGS.keys())
@pytest.mark.parametrize("dtype", [int, float])
def test_counts_with_names(mapping, dtype):
    if dtype is float:
        mapping = {name: float(n) for name, n in mapping.items()}
    for build in (
        Tree.huffman,
        lambda counts: Tree.huffman(counts, branching=3),
        Tree.from_counts,
        Tree.adaptive,
    ):
        tree = build(mapping)
        assert tree == build(np.array(COUNTS, dtype))
        assert [tree.class_name(c) for c in range(5)] == NAMES


def test_counts_by_class():
    expected = Tree.huffman([7, 2, 1])
    for mapping in (
        {2: 1, 0: 7, 1: 2},
        collections.Counter([0] * 7 + [1] * 2 + [2]),
        Series(np.array([1, 0, 2]), [2, 7, 1]),
        {np.int64(c): n for c, n in enumerate([7, 2, 1])},
    ):
        tree = Tree.huffman(mapping)
        assert tree == expected and tree.names is None


def test_from_counts():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 9, 1000)
    assert Tree.from_counts(counts) == Tree.huffman(counts, branching=256)
    assert Tree.from_counts(counts, branching=5) == Tree.huffman(
        counts, branching=5
    )
    tree = Tree.from_counts(COUNTS, names=NAMES)
    assert tree.class_of(NAMES).tolist() == [*range(5)]
    assert Tree.from_counts(COUNTS).names is None


@pytest.mark.parametrize("seed", range(10))
def test_parents_with_labels(seed):
    parents = random_parents(seed)
    root = int(np.argmin(parents))
    order = [n for n in range(parents.size) if n != root]
    names = [f"node {node}" for node in range(parents.size)]
    # The root, which is no key, is the last node.
    places = {node: place for place, node in enumerate([*order, root])}
    numbered = np.empty_like(parents)
    for node, place in places.items():
        numbered[place] = places.get(int(parents[node]), -1)
    expected = Tree.from_parents(
        numbered, names=[names[node] for node in places]
    )
    edges = [(names[parents[node]], names[node]) for node in order]
    mapping = {child: parent for parent, child in edges}
    for given in (mapping, Series([*mapping], [*mapping.values()])):
        tree = Tree.from_parents(given)
        assert tree == expected
        assert tree.names.tolist() == expected.names.tolist()
    tree = Tree.from_parents({names[n]: mapping.get(names[n]) for n in places})
    assert tree == expected
    # A graph has another order of nodes: the same leaves and paths.
    tree = Tree.from_parents(DiGraph(edges))
    leaves = {expected.class_name(c): c for c in range(expected.num_classes)}
    for c in range(tree.num_classes):
        other = leaves.pop(tree.class_name(c))
        assert tree.path_names(c) == expected.path_names(other)
    assert not leaves


def test_parents_with_other_labels():
    tree = Tree.from_parents([-1, 0, 0, 1, 1])
    for root in (None, -1, float("nan")):
        given = {0: root, 1: 0, 2: 0, 3: 1, 4: 1}
        assert Tree.from_parents(given) == tree
    assert Tree.from_parents(given).names is None
    # Here -1 is a node.
    given = {-1: None, 1: -1, 2: -1, 3: 1, 4: 1}
    assert Tree.from_parents(given) == tree


def test_classes_of_labels():
    parents = {"cat": "animal", "oak": "plant", "fir": "plant"}
    parents |= {"animal": None, "plant": "animal"}
    tree = Tree.from_parents(
        parents, classes={"fir": 0, "cat": 1, "oak": np.int8(2)}
    )
    assert tree.class_of(["fir", "cat", "oak"]).tolist() == [0, 1, 2]
    assert tree.path_names(0) == ["plant", "fir"]


TWO = {"a": "r", "b": "r"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({},), "parents is empty"),
        (({"a": None},), "is the root and has no children"),
        (({"a": "b", "b": "a"},), "no root: there must be a node with no"),
        (({"a": "a"},), "no root"),
        (
            ({"a": "r", "b": "c", "c": "d", "d": "b"},),
            "node 'b' is its own ancestor: 'b' -> 'c' -> 'd' -> 'b'",
        ),
        (({"a": None, "b": None},), "node 'a' and node 'b' both have no"),
        (({"a": "r", "b": "q"},), "node 'r' and node 'q' both have no parent"),
        (({"a": ["r"]},), r"parent \['r'\] is not hashable"),
        ((Series(["a", "a"], ["r", "r"]),), "has the node 'a' twice"),
        ((DiGraph([("r", "a"), ("q", "a")]),), "'a' has the parents 'r' and"),
        ((collections.namedtuple("Graph", "nodes")([1]),), "undirected"),
        ((TWO, None, ["a", "b"]), "names must be None"),
        ((TWO, [0, 1]), "classes must be a dict .* not a list"),
        ((TWO, {"a": 0}), "node 'b' needs a class"),
        ((TWO, {"a": 0, "b": 0}), "node 'a' and node 'b' both have class 0"),
        ((TWO, {"a": 0, "b": 2}), "node 'b' has class 2; .* are 0 to 1"),
        ((TWO, {"a": 0, "b": -1}), "class of 'b' is -1"),
        ((TWO, {"a": 0, "b": 2**70}), "node 'b' has class 1180591620717411"),
        ((TWO, {"a": 0, "b": 1.0}), "class of 'b' must be an integer"),
        ((TWO, {"a": 0, "b": 1, "c": 2}), "has 'c', which is no node"),
        ((TWO, {"a": 0, "b": 1, "r": 2}), "node 'r' has children and so no"),
    ],
)
def test_bad_labels(arguments, message):
    parents, *others = arguments
    options = dict(zip(("classes", "names"), others, strict=False))
    with pytest.raises(ValueError, match=message):
        Tree.from_parents(parents, **options)


@pytest.mark.parametrize(
    ("nested", "lists", "names"),
    [
        ({"a": 0, "b": [1, 2]}, [0, [1, 2]], ["a", "b", "", ""]),
        ({"a": 2, "b": {"c": 0, "d": 1}}, [2, [0, 1]], ["a", "b", "c", "d"]),
        ({"a": ["x", "y"], "b": None}, [[0, 1], 2], ["a", "b", "x", "y"]),
        (["x", ["y", "z"]], [0, [1, 2]], ["x", "", "y", "z"]),
        ([{"a": None}, ("b",)], [[0], [1]], ["", "", "a", "b"]),
        ([["", "x"]], [[0, 1]], ["", "", "x"]),
    ],
)
def test_nested_names(nested, lists, names):
    tree = Tree.from_nested(nested)
    assert tree == Tree.from_nested(lists)
    assert tree.names.tolist() == names
    assert Tree.from_nested(lists).names is None


PATHS = [("a", "x"), ("a", "y", "z"), ("b",)]
ROWS = [["a", "x", ""], ["a", "y", "z"], ["b", "", ""]]


@pytest.mark.parametrize(
    "rows",
    [
        np.array(ROWS),
        np.array(ROWS, object),
        np.array([[x or None for x in row] for row in ROWS], object),
        np.array([[x or np.nan for x in row] for row in ROWS], object),
        np.ma.masked_equal(np.array(ROWS, object), ""),
        DataFrame([[x or None for x in row] for row in ROWS]),
        [np.array(path) for path in PATHS],
        map(list, PATHS),
    ],
)
def test_rows_are_paths(rows):
    tree = Tree.from_paths(rows)
    assert tree == Tree.from_paths(PATHS)
    assert [tree.path_names(c) for c in range(3)] == [*map(list, PATHS)]


@pytest.mark.parametrize("pad", [-1, np.nan])
def test_rows_of_numbers_are_paths(pad):
    rows = np.array([[0, 1, pad], [0, 2, 0], [7, pad, pad]])
    assert Tree.from_paths(rows) == Tree.from_nested([[0, [1]], 2])
    assert Tree.from_paths(rows).names is None


def test_class_of():
    tree = Tree.from_counts(COUNTS, names=NAMES)
    assert tree.class_of("dog") == 3 and type(tree.class_of("dog")) is int
    for names in (["dog", "the"], ("dog", "the"), np.array(["dog", "the"])):
        classes = tree.class_of(names)
        assert classes.dtype == np.int64 and classes.tolist() == [3, 0]
    assert tree.class_of([["end"], ["cat"]]).tolist() == [[4], [1]]
    assert tree.class_of([]).shape == (0,)
    for names in ("thee", ["dog", "thee", "x"]):
        with pytest.raises(KeyError, match="named 'thee'; similar are 'the'"):
            tree.class_of(names)
    with pytest.raises(KeyError, match=r"is named 'xyz'\"?$"):
        tree.class_of("xyz")
    for name in (3, None, b"dog", [3], {"dog"}):
        with pytest.raises(TypeError, match="the name of a class is a str"):
            tree.class_of(name)
    with pytest.raises(ValueError, match="the tree has no names"):
        Tree.two_level(3).class_of("dog")
    tree = Tree.from_paths([("a", "x"), ("b", "x"), ("b", "y")])
    assert tree.class_of("y") == 2
    with pytest.raises(ValueError, match="class 0 and class 1 are both named"):
        tree.class_of("x")
    with pytest.raises(KeyError, match="no class is named 'a'"):  # a node
        tree.class_of("a")
