"""Counts that a tree keeps: `Tree.counts`, `Tree.with_counts`."""

import numpy as np
import pytest

from tf_hsm import Tree

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
def test_kept(build, dtype):
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


def test_used_where_no_others_are_given():
    tree = Tree.from_counts(COUNTS, branching=2)
    bare = tree.with_counts(None)
    assert tree.expected_cost() == bare.expected_cost(COUNTS)
    assert tree.expected_cost([1] * 6) == bare.expected_cost()
    assert (tree.row_shares() == bare.row_shares(COUNTS)).all()
    assert (tree.log_prior() == bare.log_prior(COUNTS)).all()
    with pytest.raises(ValueError, match="has no counts; give them"):
        bare.log_prior()


def test_no_class_ever_occurred():
    tree = Tree.huffman([0, 0, 0])
    assert tree.counts.tolist() == [0, 0, 0]
    assert tree.expected_cost() == tree.with_counts(None).expected_cost()


def test_grown_and_rebalanced():
    tree = Tree.from_counts({"the": 60, "of": 30, "cat": 1})
    assert tree.counts.tolist() == [60, 30, 1]
    assert tree.grow(["dog"]).counts.tolist() == [60, 30, 1, 0]
    assert tree.grow({"dog": 5}).counts.tolist() == [60, 30, 1, 5]
    assert tree.with_counts(None).grow({"dog": 5}).counts is None
    assert tree.rebalance({"cat": 9, "the": 7}).counts.tolist() == [7, 0, 9]
