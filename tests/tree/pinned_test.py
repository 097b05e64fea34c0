"""Pinned trees: what they are made of, keep, refuse, and cost."""

import io
import re

import ml_dtypes
import numpy as np
import pytest

from tests.support import trees
from tf_hsm.tree import Tree

COUNTS = 10**6 // np.arange(1, 204)
BINARY = {
    "two": lambda: Tree.balanced(2, 2),
    "balanced": lambda: Tree.balanced(37, 2),
    "huffman": lambda: Tree.huffman(COUNTS),
    "chain": lambda: trees.chain(50),
    "named": lambda: Tree.from_nested({"a": ["b", "c"], "d": None}),
}


@pytest.mark.parametrize("name", BINARY)
def test_what_changes_and_what_does_not(name):
    tree = BINARY[name]()
    pinned = tree.pin()
    assert pinned.pinned and not tree.pinned
    assert pinned != tree and hash(pinned) != hash(tree)
    assert pinned == tree.pin() and hash(pinned) == hash(tree.pin())
    assert pinned.pin() == pinned
    assert pinned.expand() == tree.expand() == tree
    assert tree.num_weight_rows == tree.num_rows == pinned.num_rows
    assert pinned.num_weight_rows == tree.num_groups == tree.num_rows // 2
    for array in ("class_rows", "row_groups", "row_spans", "row_children"):
        np.testing.assert_array_equal(
            getattr(pinned, array), getattr(tree, array)
        )
    for c in range(tree.num_classes):
        np.testing.assert_array_equal(pinned.path(c), tree.path(c))
    if tree.names is not None:
        assert pinned.names.tolist() == tree.names.tolist()
        assert pinned.expand().names.tolist() == tree.names.tolist()
    assert repr(pinned) == repr(tree)[:-1] + ", pinned=True)"


def test_files_of_other_trees_are_what_they_were(tmp_path):
    tree = Tree.huffman(COUNTS).with_counts(None)
    assert list(tree.get_config()) == ["version", *tree._arrays._fields]
    tree.save(tmp_path / "tree.npz")
    with np.load(tmp_path / "tree.npz") as members:
        arrays = dict(members)
    assert list(arrays) == ["format", "version", *tree._arrays._fields]
    # What an earlier release wrote.
    earlier = io.BytesIO()
    np.savez(earlier, **arrays)
    assert (tmp_path / "tree.npz").read_bytes() == earlier.getvalue()
    assert not Tree.load(tmp_path / "tree.npz").pinned


def test_damaged_files(tmp_path):
    path = tmp_path / "tree.npz"
    Tree.balanced(5, 2).pin().save(path)
    with np.load(path) as members:
        arrays = dict(members)
    for bad in (1, "yes", [True], [[]]):
        np.savez(path, **{**arrays, "pinned": np.array(bad)})
        with pytest.raises(ValueError, match="must be a bool"):
            Tree.load(path)
        config = {**Tree.balanced(5, 2).get_config(), "pinned": bad}
        with pytest.raises(ValueError, match="must be a bool"):
            Tree.from_config(config)
    config = {**Tree.balanced(6, 3).get_config(), "pinned": True}
    with pytest.raises(ValueError, match="group 0 has 3 rows"):
        Tree.from_config(config)


def test_builders():
    assert Tree.huffman(COUNTS, pinned=True) == Tree.huffman(COUNTS).pin()
    named = Tree.huffman({"a": 3, "b": 2, "c": 1}, pinned=True)
    assert named.pinned and named.class_of("c") == 2
    again = named.with_class_names(["x", "y", "z"])
    assert again.pinned and again == named and again.class_of("z") == 2
    assert Tree.balanced(37, 2, pinned=True) == Tree.balanced(37, 2).pin()
    vectors = np.random.default_rng(0).normal(size=[21, 3])
    options = {"branching": 2, "verbose": False}
    assert (
        Tree.from_embeddings(vectors, pinned=True, **options)
        == Tree.from_embeddings(vectors, **options).pin()
    )


@pytest.mark.parametrize(
    ("build", "group", "rows"),
    [
        (lambda: Tree.huffman(COUNTS, branching=3, pinned=True), 0, 3),
        (lambda: Tree.balanced(5, [2, 1, 3], pinned=True), 1, 1),
        (lambda: Tree.balanced(1, 2, pinned=True), 0, 1),
        (lambda: Tree.from_embeddings(np.eye(9), pinned=True), 0, 3),
        (lambda: Tree.from_nested([0, [1, 2, 3]]).pin(), 1, 3),
        (lambda: Tree.from_nested([[0, 1, 2], 3]).pin_rows([1.0] * 5), 1, 3),
    ],
)
def test_the_first_group_without_two_rows(build, group, rows):
    with pytest.raises(ValueError, match=f"group {group} has {rows} rows; ev"):
        build()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", BINARY)
def test_rows_to_and_fro(name, dtype):
    tree = BINARY[name]().pin()
    rng = np.random.default_rng(0)
    for shape in ([], [3]):
        weights = rng.normal(size=[tree.num_groups, *shape]).astype(dtype)
        expanded = tree.expand_rows(weights)
        assert expanded.dtype == dtype
        assert expanded.shape == (tree.num_rows, *shape)
        for row in range(tree.num_rows):
            wanted = weights[row // 2] if row % 2 == 0 else 0 * weights[0]
            np.testing.assert_array_equal(expanded[row], wanted)
        pinned = tree.expand().pin_rows(expanded)
        assert pinned.tobytes() == weights.tobytes()
    both = rng.normal(size=tree.num_rows).astype(dtype)
    for group, value in enumerate(tree.pin_rows(both)):
        assert value == both[2 * group] - both[2 * group + 1]


def test_types_of_rows():
    """In unsigned ones, a difference would be another number."""
    tree = Tree.balanced(2, 2)
    for dtype in (np.uint8, np.int64, bool):
        with pytest.raises(TypeError, match="weights must be floats, but are"):
            tree.pin_rows(np.ones(2, dtype))


def test_rows_of_another_tree():
    tree = Tree.balanced(5, 2)
    for method, size in ((tree.pin_rows, 8), (tree.expand_rows, 4)):
        for weights in (np.zeros([size + 1, 2]), np.float32(1)):
            message = re.escape(f"it must be [{size}, ...]")
            with pytest.raises(ValueError, match=message):
                method(weights)


def test_the_prior_is_of_odds():
    counts = np.random.default_rng(0).zipf(1.5, 203) - 1
    tree = Tree.huffman(counts, pinned=True)
    prior = tree.log_prior(counts)
    smoothed = np.where(counts > 0, counts, 0.5)
    assert prior.shape == (tree.num_groups,)
    for group in range(tree.num_groups):
        first, second = (
            smoothed[tree.classes_below(row)].sum()
            for row in (2 * group, 2 * group + 1)
        )
        assert prior[group] == pytest.approx(np.log(first / second), abs=1e-9)


def test_half_the_rows_cost_half():
    tree = Tree.huffman(COUNTS)
    pinned = tree.pin()
    assert pinned.expected_cost(COUNTS) == tree.expected_cost(COUNTS) / 2
    whole, half = (
        t.expected_cost(COUNTS, batch=64, width=30) for t in (tree, pinned)
    )
    assert half.touched_rows == pytest.approx(whole.touched_rows / 2)
    assert half.flops == pytest.approx(whole.flops / 2)
    inputs = 4 * 3 * 64 * 30
    assert half.bytes - inputs == pytest.approx((whole.bytes - inputs) / 2)
    assert "biases: 202; pinned: one row per group" in pinned.summary()
    assert "pinned" not in tree.summary()


def test_a_pinned_tree_grows_expanded():
    tree = Tree.huffman({"a": 3, "b": 2, "c": 1}, pinned=True)
    for change in (
        lambda: tree.grow(["d"]),
        lambda: tree.grow(1, near=[0]),
        lambda: tree.rebalance([1, 2, 3]),
    ):
        with pytest.raises(ValueError, match=r"pinned.*take tree\.expand\(\)"):
            change()
    grown = tree.expand().grow(["d"], near=[0])
    assert (
        grown.map_rows(tree).tolist() == grown.map_rows(tree.expand()).tolist()
    )
    better = tree.expand().rebalance([1, 2, 3])
    rows = better.map_rows(tree.expand())
    assert better.pin().map_rows(tree).tolist() == rows.tolist()
