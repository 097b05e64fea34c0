"""The trie of the codes of items, against sets of tuples."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.tries import padded, random_paths
from tf_hsm.decoding import Trie

CASES = {
    "mixed": lambda: random_paths(0),
    "more": lambda: random_paths(1, num_items=90, num_codes=9, depth=3),
    "one": lambda: [(3,)],
    "flat": lambda: [(4,), (0,), (2,)],
    "chain": lambda: [(1, 2, 0, 2, 1)],
    "deep": lambda: [(0, 1, 1), (0, 1, 0), (0, 0, 7), (2, 2, 2)],
}


@pytest.mark.parametrize("dtype", [np.int64, np.int16])
@pytest.mark.parametrize("name", CASES)
def test_nodes_are_the_beginnings_of_paths(name, dtype):
    """Walks down from the root; each node's span has the items below."""
    paths = CASES[name]()
    trie = Trie(padded(paths, dtype))
    beginnings = {p[:i] for p in paths for i in range(len(p) + 1)}
    assert trie.num_nodes == len(beginnings)
    assert trie.depth == max(map(len, paths))
    assert trie.num_codes == 1 + max(map(max, paths))
    found, waiting = set(), [(0, ())]
    while waiting:
        node, path = waiting.pop()
        found.add(path)
        children = trie.children(tf.constant([node]))[0].numpy()
        codes = trie.codes(children).numpy().tolist()
        assert codes == sorted(
            p[len(path)] for p in beginnings if p[:-1] == path and p
        )
        assert bool(trie.is_leaf(node)) == (path in paths)
        begin, end = trie._spans[node].numpy()
        below = {i for i, p in enumerate(paths) if p[: len(path)] == path}
        assert set(trie._items[begin:end].numpy().tolist()) == below
        waiting += zip(
            children.tolist(), [(*path, c) for c in codes], strict=True
        )
    assert found == beginnings


def test_children_of_nodes_of_any_shape():
    """-1 fills what a node has less than the others."""
    trie = Trie(np.array([[0, 0], [0, 1], [0, 2], [1, 5], [3, -1]]))
    children = trie.children(tf.constant([[0, 1], [2, 3]]))
    np.testing.assert_array_equal(
        children, [[[1, 2, 3], [4, 5, 6]], [[7, -1, -1], [-1, -1, -1]]]
    )
    np.testing.assert_array_equal(
        trie.codes(children), [[[0, 1, 3], [0, 1, 2]], [[5, -1, -1], [-1] * 3]]
    )
    assert trie.children(tf.constant([3, 7])).shape == (2, 0)
    assert trie.children(tf.zeros([0], tf.int32)).shape == (0, 0)


@pytest.mark.parametrize("name", CASES)
def test_items(name):
    """A path has an item; beginnings of paths and other codes have none."""
    paths = CASES[name]()
    codes, depth = padded(paths), max(map(len, paths))
    trie = Trie(codes)
    np.testing.assert_array_equal(trie.items(codes), np.arange(len(paths)))
    items = {path: i for i, path in enumerate(paths)}
    rng = np.random.default_rng(0)
    others = rng.integers(trie.num_codes + 2, size=[2, 300, depth + 1])
    others[
        np.arange(depth + 1)
        >= rng.integers(depth + 2, size=[300, 1])[np.newaxis].repeat(2, 0)
    ] = -1
    wanted = [
        [items.get(tuple(c for c in row if c >= 0), -1) for row in rows]
        for rows in others.tolist()
    ]
    np.testing.assert_array_equal(trie.items(others), wanted)
    np.testing.assert_array_equal(tf.function(trie.items)(others), wanted)


@pytest.mark.parametrize("form", ["mask", "items", "padded"])
def test_mask(form):
    """A node is kept where an allowed item is at or below it."""
    paths = CASES["mixed"]()
    trie = Trie(padded(paths))
    chosen = np.random.default_rng(2).choice(len(paths), 9, replace=False)
    allowed = {
        "mask": np.isin(np.arange(len(paths)), chosen),
        "items": chosen.astype(np.int32),
        "padded": [*chosen.tolist(), -1, int(chosen[0])],
    }[form]
    nodes = np.arange(trie.num_nodes)
    kept = trie.mask(allowed).keep(tf.constant(nodes, tf.int32)).numpy()
    wanted = [
        np.isin(trie._items[begin:end], chosen).any()
        for begin, end in trie._spans.numpy()
    ]
    np.testing.assert_array_equal(kept, np.where(wanted, nodes, -1))
    none = trie.mask([-1]).keep(tf.constant(nodes, tf.int32))
    assert (none.numpy() == -1).all()


@pytest.mark.parametrize(
    "codes, message",
    [
        ([[1, 2], [0, 1], [1, 2]], "items 0 and 2 have the same codes"),
        ([[1, 2], [0, 1], [1, -1]], "codes of item 2 begin the codes of item"),
        ([[1, 2], [-1, 1]], r"item 1 are \[-1, 1\]; a path has at least one"),
        ([[1, -1, 2]], "-1 may only stand after its end"),
        ([[1, -2]], r"item 0 are \[1, -2\]; a code must be below"),
        ([[2**40]], "a code must be below"),
        ([1, 2], r"integers \[items, levels\], .* shape \[2\]"),
        ([[0.5]], "are float64"),
        (np.zeros([0, 3], int), r"shape \[0, 3\]"),
    ],
)
def test_wrong_codes(codes, message):
    with pytest.raises(ValueError, match=message):
        Trie(codes)


def test_wrong_masks():
    trie = Trie([[0], [1]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="boolean for eac"):
        trie.mask([True])
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside"):
        trie.mask([2])
    with pytest.raises(ValueError, match=r"the shape \(1, 1, 2\)"):
        trie.mask([[[0, 1]]])
    with pytest.raises(TypeError, match="allowed must be integers"):
        trie.mask([0.5])
