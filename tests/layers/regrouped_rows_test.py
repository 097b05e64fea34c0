"""The rows of a regrouped head, against loops and least squares in float64."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.pairs import all_pairs
from tests.support.trees import CATALOGUE
from tf_hsm.heads.tree_head import TreeHead
from tf_hsm.layers import regrouped_rows
from tf_hsm.layers.regrouped_layer import Moves
from tf_hsm.tree import Tree

WIDTH = 4
TREES = {
    **{k: make for k, make in CATALOGUE.items() if make().num_classes <= 64},
    "pinned": lambda: Tree.huffman(1 + np.arange(20), pinned=True),
}


def permuted(tree, seed=0):
    """A tree of the same shape with its classes at random leaves."""
    order = np.random.default_rng(seed).permutation(tree.num_classes)
    return Tree(
        tree.group_offsets,
        tree.group_parents,
        tree.class_rows[order],
        pinned=tree.pinned,
    )


def random_rows(tree, use_bias, dtype=np.float64):
    rng = np.random.default_rng(tree.num_rows)
    shape = [tree.num_weight_rows, WIDTH]
    weights = rng.normal(size=shape).astype(dtype)
    return weights, rng.normal(size=shape[:1]).astype(dtype) * use_bias


def class_log_probs(tree, weights, biases, x):
    """Returns log P(class | x) in float64, `[N]`."""
    return tf_hsm.hierarchical_softmax_log_probs(
        weights, biases, x[np.newaxis], tree
    ).numpy()[0]


def row_log_probs(old, new, weights, biases, x):
    """The old model's log-probability of the classes below new rows, `[R]`."""
    probs = np.exp(class_log_probs(old, weights, biases, x))
    return np.log(
        [probs[new.classes_below(r)].sum() for r in range(new.num_rows)]
    )


def less_means(new, values, shares):
    """Values `[R]` less the mean of each group by shares."""
    result = values.copy()
    for begin, end in itertools.pairwise(new.group_offsets):
        rows = slice(begin, end)
        result[rows] -= shares[rows] @ values[rows]
    return result


def expected(old, new, weights, biases, inputs, use_bias):
    """The fit by central differences and a least squares solver."""
    center = np.zeros(WIDTH) if inputs is None else inputs.mean(0)

    def logs(x):
        return row_log_probs(old, new, weights, biases, x)

    at_center = np.exp(logs(center))
    shares = at_center.copy()
    for begin, end in itertools.pairwise(new.group_offsets):
        shares[begin:end] /= at_center[begin:end].sum()
    steps = 1e-5 * np.eye(WIDTH)
    tangent = np.stack(
        [
            less_means(new, logs(center + s) - logs(center - s), shares) / 2e-5
            for s in steps
        ],
        1,
    )
    if inputs is None:
        return tangent, np.log(shares)
    targets = np.stack([less_means(new, logs(x), shares) for x in inputs])
    # Unknowns: the weights less the tangent, and the bias, without penalty.
    design = np.append(inputs, np.full([len(inputs), 1], use_bias), 1)
    varying = inputs - center if use_bias else inputs
    ridge = 0.01 * np.sum(varying**2) / WIDTH or 1.0
    penalty = np.sqrt(ridge) * np.eye(WIDTH + 1)[:WIDTH]
    rest = np.append(
        targets - inputs @ tangent.T, np.zeros([WIDTH, new.num_rows]), 0
    )
    found, *_ = np.linalg.lstsq(np.append(design, penalty, 0), rest, rcond=None)
    return tangent + found[:WIDTH].T, found[WIDTH]


@pytest.mark.parametrize(
    "name, num_inputs, use_bias",
    all_pairs([*TREES], [None, 1, 3, 20], [True, False]),
)
def test_fit(name, num_inputs, use_bias, monkeypatch):
    monkeypatch.setattr(regrouped_rows, "_BLOCK", 500)  # several blocks
    monkeypatch.setattr(regrouped_rows, "_STEPS", 0)
    old = TREES[name]()
    new = permuted(old)
    weights, biases = random_rows(old, use_bias)
    inputs = None
    if num_inputs is not None:
        inputs = 1 + np.random.default_rng(5).normal(size=[num_inputs, WIDTH])
    head = TreeHead(
        tf.constant(weights), tf.constant(biases) if use_bias else None, old
    )
    found = regrouped_rows.fit(head, new, np.arange(new.num_rows), inputs)
    want = expected(old, new, weights, biases, inputs, use_bias)
    np.testing.assert_allclose(found[0], want[0], atol=2e-7, rtol=1e-6)
    if use_bias:
        np.testing.assert_allclose(found[1], want[1], atol=2e-7, rtol=1e-6)
    else:
        assert found[1] is None
    # Some groups alone have the same rows.
    group = new.num_groups // 2
    rows = np.arange(*new.group_offsets[group : group + 2])
    some = regrouped_rows.fit(head, new, rows, inputs)
    np.testing.assert_allclose(some[0], found[0][rows], atol=1e-12)


def cross_entropy(old, new, rows, weights, biases, inputs):
    """The new model's loss, with the old model's probabilities as targets."""
    return -sum(
        np.exp(class_log_probs(old, weights, biases, x))
        @ class_log_probs(new, rows[:, :WIDTH], rows[:, WIDTH], x)
        for x in inputs
    )


def test_steps(monkeypatch):
    """A step by the numeric gradient; many steps find the minimum."""
    old = Tree.from_nested([[0, 1, 2], [3, [4, 5]]])
    new = permuted(old, 4)
    weights, biases = random_rows(old, True)
    inputs = 2 + np.random.default_rng(5).normal(size=[30, WIDTH])
    head = TreeHead(tf.constant(weights), tf.constant(biases), old)

    def fitted(steps):
        monkeypatch.setattr(regrouped_rows, "_STEPS", steps)
        found = regrouped_rows.fit(head, new, np.arange(new.num_rows), inputs)
        return np.append(found[0], found[1][:, None], 1)

    def entropy_of(rows):
        return cross_entropy(old, new, rows, weights, biases, inputs)

    def gradient_at(rows):
        found = np.zeros_like(rows)
        for place in np.ndindex(*rows.shape):
            step = np.zeros_like(rows)
            step[place] = 1e-5
            found[place] = entropy_of(rows + step) - entropy_of(rows - step)
        return found / 2e-5

    start, first = fitted(0), fitted(1)
    centered = inputs - inputs.mean(0)
    ridge = 0.01 * np.sum(centered**2) / WIDTH
    # The same step in the coordinates of x and 1, which are not centered.
    to_plain = np.eye(WIDTH + 1)
    to_plain[WIDTH, :WIDTH] = -inputs.mean(0)
    centered = np.append(centered, np.ones([30, 1]), 1)
    products = centered.T @ centered + ridge * np.diag([1] * WIDTH + [0])
    inverse = to_plain @ np.linalg.inv(products) @ to_plain.T
    design = np.append(inputs, np.ones([30, 1]), 1)
    leverages = np.sum(design @ inverse * design, 1)
    probs = np.exp(
        np.stack([row_log_probs(old, new, weights, biases, x) for x in inputs])
    )
    want = np.zeros_like(start)
    gradient = gradient_at(start)
    for begin, end in itertools.pairwise(new.group_offsets):
        bound = min(1, leverages @ probs[:, begin:end].sum(1))
        want[begin:end] = -2 / bound * gradient[begin:end] @ inverse
    np.testing.assert_allclose(first - start, want, atol=1e-6)
    entropies = [entropy_of(fitted(n)) for n in (0, 1, 8, 300)]
    assert entropies == sorted(entropies, reverse=True)
    assert np.abs(gradient_at(fitted(300))).max() < 1e-3
    assert np.abs(gradient).max() > 0.1


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16])
def test_other_types(dtype):
    """The rows of the values that the weights have."""
    old = Tree.huffman(1 + np.arange(40), branching=4)
    new = permuted(old)
    weights, biases = (
        tf.cast(tf.constant(v), dtype) for v in random_rows(old, True)
    )
    inputs = np.random.default_rng(5).normal(size=[20, WIDTH])
    rows = np.arange(new.num_rows)
    found = regrouped_rows.fit(
        TreeHead(weights, biases, old), new, rows, inputs
    )
    wide = TreeHead(
        tf.cast(weights, tf.float64), tf.cast(biases, tf.float64), old
    )
    want = regrouped_rows.fit(wide, new, rows, inputs)
    for mine, its in zip(found, want, strict=True):
        assert mine.dtype == np.float32
        np.testing.assert_allclose(mine, its, atol=2e-5)


def test_hopeless_classes():
    """A class without a probability that float64 knows has finite rows."""
    old = Tree.two_level(9)
    weights, biases = random_rows(old, True)
    biases[old.class_rows[2]] = -1e4
    head = TreeHead(tf.constant(weights), tf.constant(biases), old)
    for inputs in (None, np.ones([3, WIDTH])):
        new = permuted(old, 1)
        for values in regrouped_rows.fit(
            head, new, np.arange(new.num_rows), inputs
        ):
            assert np.isfinite(values).all()


def test_moves():
    """A group moves if its classes are others, or not all of an old group."""
    old = Tree.from_nested([[0, 1, 2], [3, 4]])
    moves = Moves(old, Tree.from_nested([[1, 0, 2], [4, 3]]))
    np.testing.assert_array_equal(moves.sources, [0, 1, 3, 2, 4, 6, 5])
    assert not moves.moved.size
    moves = Moves(old, Tree.from_nested([[3, 4, 0], [1, 2]]))
    np.testing.assert_array_equal(moves.sources, [-1] * 7)
    np.testing.assert_array_equal(moves.moved, np.arange(7))
    np.testing.assert_array_equal(moves.slot_sources, [0, 1, 5, 6, 2, 3, 4])


def test_moves_of_pinned_trees():
    """A swapped pair is another row; a pair at another place is the same."""
    old = Tree.from_nested([[0, 1], [2, 3]]).pin()
    both = Tree.from_nested([[2, 3], [0, 1]]).pin()
    np.testing.assert_array_equal(Moves(old, both).sources, [-1, 2, 1])
    one = Tree.from_nested([[1, 0], [2, 3]]).pin()
    np.testing.assert_array_equal(Moves(old, one).sources, [0, -1, 2])
