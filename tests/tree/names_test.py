"""Names of rows, counts of classes: where they come from, what keeps them."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.tree_reference import random_parents
from tf_hsm import decoding, layers
from tf_hsm.tree import Tree

ODD = ["", "a", "é", "", "猫 cat", "a\nb", "\0", "𝄞", "x" * 500, "\ud800", ""]
PATHS = [("animal", "cat"), ("plant",), ("animal", "dog"), ("thing", "", "é")]


def animals():
    return Tree.from_paths(PATHS)


def test_from_paths_keeps_the_keys():
    tree = animals()
    assert [tree.path_names(c) for c in range(4)] == [*map(list, PATHS)]
    assert [tree.class_name(c) for c in range(4)] == [
        "cat",
        "plant",
        "dog",
        "é",
    ]
    rows = ["animal", "plant", "thing", "cat", "dog", "", "é"]
    assert tree.names.tolist() == rows
    assert tree.names[tree.path(2)].tolist() == ["animal", "dog"]
    for keys in ((1, 2), ("a", 2), ("a", ("b",)), (b"a", "b"), (None, "b")):
        assert Tree.from_paths([keys, ("c",)]).names is None


@pytest.mark.parametrize("seed", range(20))
def test_from_parents_names_every_node(seed):
    parents = random_parents(seed)
    names = [f"node {node} é"[: 3 + node % 9] for node in range(parents.size)]
    inner = set(parents.tolist())
    leaves = [n for n in range(parents.size) if n not in inner]
    for given in (names, tuple(names), np.array(names), np.array(names, "O")):
        tree = Tree.from_parents(parents, names=given)
        for c, node in enumerate(leaves):
            path = []
            while parents[node] >= 0:
                path.insert(0, names[node])
                node = parents[node]
            assert tree.path_names(c) == path
    unnamed = Tree.from_parents(parents)
    assert unnamed.names is None
    assert tree.names.shape == (tree.num_rows,)
    assert Tree(*unnamed._arrays, names=tree.names).names.tolist() == (
        tree.names.tolist()
    )


def test_class_names():
    named = Tree.huffman([1, 5, 3, 1]).with_class_names(["a", "b", "c", "d"])
    assert [named.class_name(c) for c in range(4)] == ["a", "b", "c", "d"]
    assert set(named.names[named.row_classes < 0]) == {""}
    assert type(named.class_name(0)) is str and type(named.names[0]) is str
    again = animals().with_class_names(["Cat", "Plant", "Dog", "E"])
    assert again.path_names(2) == ["animal", "Dog"]
    assert animals().class_name(0) == "cat"


def test_any_str_is_a_name():
    tree = Tree.balanced(len(ODD), len(ODD)).with_class_names(ODD)
    assert tree.names.tolist() == ODD
    assert [tree.class_name(c) for c in range(len(ODD))] == ODD
    for size in range(1, len(ODD)):
        names = ODD[-size:]
        tree = Tree.balanced(size, [size]).with_class_names(names)
        assert tree.names.tolist() == names


def test_equality_and_hash_are_of_the_arrays_alone():
    tree = animals()
    bare = Tree(tree.group_offsets, tree.group_parents, tree.class_rows)
    assert tree == bare and hash(tree) == hash(bare)
    assert bare.names is None
    assert repr(tree) == repr(bare)


def test_a_million_names_stay_small(tmp_path):
    names = [f"w{c}" for c in range(10**6)]
    names[7] = "é" * 10**5  # as fixed-width text, each would be so long
    tree = Tree.two_level(10**6).with_class_names(names)
    path = tmp_path / "tree.npz"
    tree.save(path)
    bare = sum(array.nbytes for array in tree._arrays)
    text = sum(len(name.encode()) for name in names)
    assert path.stat().st_size < bare + text + 8 * tree.num_rows + 10_000
    loaded = Tree.load(path)
    assert loaded.class_name(7) == names[7]
    assert loaded.names[loaded.class_rows].tolist() == names


def test_summary_counts_names():
    last = animals().summary().splitlines()[-1]
    assert last == "  names of 6 rows: 88 bytes"
    assert "names" not in Tree.two_level(5).summary()


def test_damaged_files_and_configs(tmp_path):
    path = tmp_path / "tree.npz"
    tree = animals()
    members = {**tree._arrays._asdict(), "format": "tf_hsm.Tree", "version": 1}
    np.savez(path, **members, names_utf8=np.zeros(3, np.uint8))
    with pytest.raises(ValueError, match="names_offsets"):
        Tree.load(path)
    config = tree.get_config()
    offsets = config["names"]["offsets"]
    for bad in (
        *({}, 3, "names", {"utf8": "", "offsets": offsets}),
        {**config["names"], "utf8": "***"},
        {**config["names"], "offsets": {**offsets, "size": 1}},
        {**config["names"], "offsets": {**offsets, "size": 0, "data": ""}},
    ):
        with pytest.raises(ValueError, match="not a config of"):
            Tree.from_config({**config, "names": bad})


@pytest.mark.parametrize(
    "make", [list, np.array, tf.constant, lambda c: np.array(c, np.int32)]
)
def test_names_of_an_array(make):
    names = list("abcdefghij")
    tree = Tree.huffman(1 + np.arange(10)).with_class_names(names)
    for classes in ([3, 0, 9, 3], [[0], [8]], [[[5, -1, 2]], [[1, 1, -1]]]):
        found = tree.class_name(make(classes))
        assert found.shape == np.shape(classes)
        wanted = ["" if c < 0 else names[c] for c in np.ravel(classes)]
        assert found.ravel().tolist() == wanted
        assert all(type(name) is str for name in found.flat)


def test_names_of_answers():
    """What top_k and decoders return has `classes`."""
    tree = animals()
    head = layers.HierarchicalSoftmax(tree)
    head.build([None, 2])
    found = head.top_k(tf.ones([3, 2]), 4)
    names = tree.class_name(found)
    assert names.shape == (3, 4)
    assert tree.class_of(names).tolist() == found.classes.numpy().tolist()
    sequences = decoding.Sequences(tf.constant([[1, -1]]), None, None)
    wanted = [[tree.class_name(1), ""]]
    assert tree.class_name(sequences).tolist() == wanted


def test_classes_of_any_type():
    tree = animals()
    for c in (0, np.int64(0), np.array(0), tf.constant(0)):
        assert tree.class_name(c) == "cat"
    for none in ([], np.zeros([0, 3], np.int64), np.zeros([2, 0], np.int32)):
        assert tree.class_name(none).shape == np.shape(none)
    for bad in (-1, 4, 2**70, 1.0, "cat", None, True):
        for method in (tree.class_name, tree.path_names, tree.path):
            with pytest.raises(IndexError, match="class"):
                method(bad)
    for bad in ([0, 4], [0, -2], [[1.0]], ["cat"], [True], [2**63]):
        with pytest.raises(IndexError, match=r"class(es)? "):
            tree.class_name(bad)


COUNTS = [5, 0, 3, 100, 7, 1]
BUILDERS = {
    "huffman": lambda counts: Tree.huffman(counts),
    "pinned": lambda counts: Tree.huffman(counts, pinned=True),
    "from_counts": lambda counts: Tree.from_counts(counts),
    "adaptive": lambda counts: Tree.adaptive(counts, cutoffs=[2]),
    "with_counts": lambda counts: Tree.two_level(6).with_counts(counts),
}
every_builder = pytest.mark.parametrize(
    "build", BUILDERS.values(), ids=BUILDERS
)


@every_builder
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_counts_are_kept(build, dtype):
    counts = np.array(COUNTS, dtype)
    tree = build(counts)
    counts[0] = 17  # The tree has a copy.
    for same in (tree, tree.with_class_names(list("abcdef")), tree.expand()):
        assert same.counts.tolist() == COUNTS
        assert same.counts.dtype == dtype
        assert not same.counts.flags.writeable
    assert (
        tree == tree.with_counts(None) and tree.with_counts(None).counts is None
    )


def test_counts_are_used_where_no_others_are_given():
    tree = Tree.from_counts(COUNTS, branching=2)
    bare = tree.with_counts(None)
    assert tree.expected_cost() == bare.expected_cost(COUNTS)
    assert tree.expected_cost([1] * 6) == bare.expected_cost()
    assert (tree.row_shares() == bare.row_shares(COUNTS)).all()
    assert (tree.log_prior() == bare.log_prior(COUNTS)).all()
    with pytest.raises(ValueError, match="has no counts; give them"):
        bare.log_prior()


def test_counts_where_no_class_ever_occurred():
    tree = Tree.huffman([0, 0, 0])
    assert tree.counts.tolist() == [0, 0, 0]
    assert tree.expected_cost() == tree.with_counts(None).expected_cost()


def test_counts_of_grown_and_rebalanced():
    tree = Tree.from_counts({"the": 60, "of": 30, "cat": 1})
    assert tree.counts.tolist() == [60, 30, 1]
    assert tree.grow(["dog"]).counts.tolist() == [60, 30, 1, 0]
    assert tree.grow({"dog": 5}).counts.tolist() == [60, 30, 1, 5]
    assert tree.with_counts(None).grow({"dog": 5}).counts is None
    assert tree.rebalance({"cat": 9, "the": 7}).counts.tolist() == [7, 0, 9]
