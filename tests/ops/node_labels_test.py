"""Labels that are rows of the tree, of inner nodes too, against the oracle."""

import functools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import forests, oracle, trees
from tests.support import inference_reference as reference
from tests.support.evaluation import assert_within, dense, evaluate
from tests.support.training import wide_problem

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
# Few examples of each tree, whose type goes on at every second one; and many.
CASES = [
    (name, (17, 3), DTYPES[i // 2 % 4])
    for i, name in enumerate(trees.CATALOGUE)
] + [
    (name, (252, 50), np.float32)
    for name in ("two_level_1013", "huffman_4ary", "random", "one_huge_group")
]

loss = functools.partial(tf_hsm.hierarchical_softmax_loss, nodes=True)
log_prob = tf_hsm.hierarchical_softmax_log_prob

build = functools.cache(lambda name: {**trees.CATALOGUE, **trees.DEEP}[name]())


def classes_below(tree, row):
    """By climbing from each class."""
    return [c for c in range(tree.num_classes) if row in tree.path(c)]


@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_places_of_rows(name):
    """Depth-first order, and the classes below a row, by brute force."""
    tree = build(name)
    order = []
    waiting = [*range(tree.group_offsets[1])][::-1]
    while waiting:
        row = waiting.pop()
        order.append(row)
        group = tree.row_children[row]
        if group >= 0:
            rows = range(*tree.group_offsets[group : group + 2])
            waiting += [*rows][::-1]
    np.testing.assert_array_equal(np.argsort(tree.row_ranks), order)
    rng = np.random.default_rng(0)
    for row in rng.integers(tree.num_rows, size=30):
        below = classes_below(tree, row)
        np.testing.assert_array_equal(tree.classes_below(row), below)
        first, past = tree.row_spans[row]
        assert sorted(tree.class_ranks[below]) == [*range(first, past)]
    for row in (-1, tree.num_rows, 0.5, True):
        with pytest.raises(IndexError, match="row"):
            tree.classes_below(row)


@pytest.mark.parametrize("name", forests.TREES)
def test_places_of_rows_of_a_forest(name):
    """Tree after tree, as in the tree that it is cut from."""
    tree = forests.TREES[name]()
    roots = sorted(
        forests.some_rows(tree, 1), key=lambda row: tree.row_ranks[row]
    )
    cut = forests.cut(tree, roots)
    order = np.argsort(tree.row_ranks[cut.rows])
    np.testing.assert_array_equal(np.argsort(cut.forest.row_ranks), order)
    for row in range(cut.forest.num_rows):
        np.testing.assert_array_equal(
            np.sort(cut.classes[cut.forest.classes_below(row)]),
            tree.classes_below(cut.rows[row]),
        )


@pytest.mark.parametrize("name, shape, dtype", CASES)
def test_loss_and_gradients(name, shape, dtype):
    tree, rows = build(name), trees.OfRows(build(name))
    problem = oracle.random_problem(rows, *shape, dtype, seed=sum(shape))
    expected, bound = oracle.hierarchical_softmax(rows, problem)
    swaps = list(trees.CATALOGUE).index(name) % 2
    for i, parameter in enumerate((tf.constant, tf.Variable)):
        result = evaluate(
            loss,
            tree,
            problem,
            parameter=parameter,
            label_dtype=[np.int32, np.int64][(i + swaps) % 2],
            graph=bool(swaps),
        )
        assert_within(dense(result), expected, bound)
        np.testing.assert_array_equal(
            result.dw.indices, oracle.touched_rows(rows, problem.labels)
        )


def test_a_chain_of_10000_levels():
    tree = build("chain_10000")
    rows = trees.OfRows(tree)
    problem = oracle.random_problem(rows, 4, 5, np.float64)
    result = evaluate(loss, tree, problem)
    assert_within(dense(result), *oracle.hierarchical_softmax(rows, problem))


def test_leaves_are_their_classes():
    """To the bit, in a batch that has inner nodes too; with ignored labels."""
    tree = build("huffman_4ary")
    rng = np.random.default_rng(0)
    problem = oracle.random_problem(tree, 60, 7, np.float32)
    weights, biases, x = problem.weights, problem.biases, problem.inputs
    classes = problem.labels
    rows = rng.integers(tree.num_rows, size=60)
    is_leaf = rng.random(60) < 0.5
    rows[is_leaf] = tree.class_rows[classes[is_leaf]]
    rows[::7] = -1
    mixed = loss(weights, biases, rows, x, tree, ignore_class=-1).numpy()
    of_classes = tf_hsm.hierarchical_softmax_loss(
        weights, biases, classes, x, tree
    ).numpy()
    assert (mixed[::7] == 0).all()
    is_leaf[::7] = False
    np.testing.assert_allclose(mixed[is_leaf], of_classes[is_leaf], rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", trees.CATALOGUE)
def test_log_prob(name, dtype):
    """To the bit those of all nodes, which add up those of classes."""
    tree = build(name)
    problem = oracle.random_problem(tree, 6, 5, dtype)
    arguments = problem.weights, problem.biases, problem.inputs
    weights, biases, x = arguments
    rows = np.random.default_rng(0).integers(tree.num_rows, size=[6, 9])
    of_all = tf_hsm.hierarchical_softmax_log_probs(*arguments, tree, nodes=True)
    of_some = log_prob(weights, biases, rows, x, tree, nodes=True)
    np.testing.assert_array_equal(
        of_some, np.take_along_axis(of_all.numpy(), rows, -1)
    )
    classes = np.exp(
        reference.by_class(tree, reference.node_log_probs(tree, problem)[0])
    )
    for row in rows[0]:
        below = tree.classes_below(row)
        np.testing.assert_allclose(
            np.exp(of_all[:, row]), classes[:, below].sum(1), rtol=2e-4
        )


def test_forests():
    """Given the root that the node is below."""
    cut = forests.cut(
        forests.TREES["ragged"](),
        forests.some_rows(forests.TREES["ragged"](), 1),
    )
    forest = cut.forest
    problem = oracle.random_problem(forest, 5, 4, np.float64)
    weights, biases, x = problem.weights, problem.biases, problem.inputs
    rows = np.arange(forest.num_rows)[np.newaxis].repeat(5, 0)
    of_all = tf_hsm.hierarchical_softmax_log_probs(
        weights, biases, x, forest, nodes=True
    )
    np.testing.assert_array_equal(
        log_prob(weights, biases, rows, x, forest, nodes=True), of_all
    )
    for row in range(forest.num_rows):
        losses = loss(weights, biases, np.full(5, row), x, forest)
        np.testing.assert_allclose(losses, -of_all[:, row], rtol=1e-12)


@pytest.mark.parametrize("name", ["huffman_2ary", "two_level_100", "random"])
@pytest.mark.parametrize("embeds", [False, True])
def test_steps_in_place(name, embeds):
    """SGD by the oracle's gradients, of the tree and of the vectors."""
    tree, rows = build(name), trees.OfRows(build(name))
    problem = wide_problem(rows, (67, 33), np.float64)
    value, _ = oracle.hierarchical_softmax(
        rows, problem.replace(upstream=np.full(67, 0.5))
    )
    variables = [
        tf.Variable(a)
        for a in (problem.weights, problem.biases, problem.inputs)
    ]
    weights, biases, vectors = variables
    optimizer = tf_hsm.optimizers.SGD(1.0)
    optimizer.build(variables)
    options = {"loss_weights": 0.5, "nodes": True}
    if embeds:
        losses = tf_hsm.hierarchical_softmax_embedding_train_step(
            weights,
            biases,
            problem.labels,
            vectors,
            np.arange(67),
            tree,
            optimizer,
            **options,
        )
        np.testing.assert_allclose(
            vectors, problem.inputs - value.dx, rtol=1e-9, atol=1e-9
        )
    else:
        losses = tf_hsm.hierarchical_softmax_train_step(
            weights,
            biases,
            problem.labels,
            problem.inputs,
            tree,
            optimizer,
            **options,
        )
    np.testing.assert_allclose(losses, value.loss, rtol=1e-9)
    for variable, before, gradient in [
        (weights, problem.weights, value.dw),
        (biases, problem.biases, value.db),
    ]:
        np.testing.assert_allclose(
            variable, before - gradient, rtol=1e-9, atol=1e-9
        )


def test_rows_that_are_none():
    tree = build("binary_37")
    problem = oracle.random_problem(tree, 3, 4, np.float32)
    weights, biases, x = problem.weights, problem.biases, problem.inputs
    for row in (-1, tree.num_rows, 2**40):
        labels = np.array([0, row, 1])
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=rf"labels\[1\] = {row} is outside \[0, {tree.num_rows}\)",
        ):
            loss(weights, biases, labels, x, tree)
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=rf"classes\[1\] = {row} is outside \[0, {tree.num_rows}\)",
        ):
            log_prob(weights, biases, labels[:, None], x, tree, nodes=True)


def test_a_gpu_refuses(monkeypatch):
    """Before the op is called, which would read the arrays as another tree."""
    tree = build("binary_37")
    problem = oracle.random_problem(tree, 3, 4, np.float32)
    weights = tf.Variable(problem.weights)
    monkeypatch.setattr(
        type(weights), "device", "/job:localhost/task:0/device:GPU:0"
    )
    labels = problem.labels
    with pytest.raises(tf.errors.UnimplementedError, match="nodes is not"):
        log_prob(
            weights, None, labels[:, None], problem.inputs, tree, nodes=True
        )


def test_names():
    """Rows by their names, of inner nodes and leaves."""
    tree = tf_hsm.Tree.from_paths(
        [("animal", "cat"), ("plant",), ("animal", "dog"), ("thing", "cat")]
    )
    for name in ("animal", "plant", "thing", "dog"):
        assert tree.names[tree.row_of(name)] == name
    rows = tree.row_of([["animal"], ["dog"]])
    assert rows.dtype == np.int64 and rows.shape == (2, 1)
    assert tree.classes_below(tree.row_of("animal")).tolist() == [0, 2]
    with pytest.raises(KeyError, match="no row is named 'animol'; similar are"):
        tree.row_of("animol")
    with pytest.raises(ValueError, match="both named 'cat'; take the row from"):
        tree.row_of("cat")
    with pytest.raises(TypeError, match="the name of a row is a str"):
        tree.row_of(3)
    with pytest.raises(ValueError, match="the tree has no names"):
        tf_hsm.Tree.two_level(3).row_of("cat")
