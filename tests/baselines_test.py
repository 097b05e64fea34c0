"""Every baseline against the NumPy oracle."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import oracle, trees
from tests.support.evaluation import assert_within, dense, evaluate
from tests.support.pairs import all_pairs
from tf_hsm import baselines

TREE_LOSSES = [
    baselines.gather_loss,
    baselines.embedding_lookup_loss,
    baselines.map_fn_loss,
]
LOSSES = [*TREE_LOSSES, baselines.full_softmax_loss]


@pytest.mark.parametrize(
    "name, loss, shape, width, dtype, parameter, label_dtype, graph,"
    "has_biases, ignored",
    all_pairs(
        trees.KINDS,
        LOSSES,
        [[7], [], [1], [2, 3], [17], [0], [3, 0]],
        [1, 5, 33],
        [np.float64, np.float32],
        [tf.Variable, tf.constant],
        [np.int64, np.int32],
        [False, True],
        [True, False],
        [None, -1, 3, [-1, 3], (-1,), []],
    ),
)
def test_agrees_with_the_oracle(
    name,
    loss,
    shape,
    width,
    dtype,
    parameter,
    label_dtype,
    graph,
    has_biases,
    ignored,
):
    """Ignored examples have no loss, and pass on nothing of their inputs."""
    tree = rows = trees.CATALOGUE[name]()
    if loss is baselines.full_softmax_loss:
        # It has a row for each class, not for each node.
        rows = oracle.OneGroup(tree.num_classes)
    batch = int(np.prod(shape))
    problem = oracle.random_problem(rows, batch, width, dtype)
    if not has_biases:
        problem = problem.replace(biases=None)
    several = np.ravel([] if ignored is None else ignored).astype(int)
    problem.labels[1 : 1 + several.size] = several[: max(batch - 1, 0)]
    is_ignored = np.isin(problem.labels, several)
    known = problem.replace(labels=np.where(is_ignored, -1, problem.labels))
    expected = oracle.hierarchical_softmax(rows, known, -1)
    problem.inputs[is_ignored] = np.nan
    result = evaluate(
        loss,
        tree,
        problem,
        parameter=parameter,
        label_dtype=label_dtype,
        leading_shape=shape,
        graph=graph,
        ignore_class=ignored,
    )
    assert result.loss.shape == shape
    assert result.dx.shape == [*shape, width]
    actual = dense(result)
    assert_within(actual, *expected)
    assert not actual.loss[is_ignored].any()
    assert not actual.dx[is_ignored].any()


@pytest.mark.parametrize("loss", LOSSES)
def test_wrong_types(loss):
    """Unsigned labels are no ignored ones; neither floats nor strings are."""
    tree = trees.CATALOGUE["two_level_7"]()
    weights = np.ones([tree.num_rows, 2])

    def losses(labels, inputs=((1.0, 2.0),)):
        return loss(weights, None, labels, inputs, tree, ignore_class=-1)

    np.testing.assert_array_equal(losses(np.uint64([3])), losses([3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{2**63 - 1}"):
        losses(np.uint64([2**64 - 1]))
    for labels in ([1.0], ["a"]):
        with pytest.raises(TypeError, match="labels must be integers"):
            losses(labels)
    with pytest.raises(TypeError, match=r"inputs must be floats.* string"):
        losses([1], [["a", "b"]])


@pytest.mark.parametrize("scale", [100.0, 1e4])
@pytest.mark.parametrize("loss", TREE_LOSSES)
def test_large_logits(loss, scale):
    tree = trees.CATALOGUE["random"]()
    problem = oracle.random_problem(tree, 6, 4, np.float32)
    problem = problem.replace(weights=np.float32(scale) * problem.weights)
    actual = dense(evaluate(loss, tree, problem))
    assert_within(actual, *oracle.hierarchical_softmax(tree, problem))


def test_the_gradient_of_a_variable_is_sparse():
    tree = trees.CATALOGUE["two_level_100"]()
    problem = oracle.random_problem(tree, 4, 3, np.float32)
    for loss in TREE_LOSSES[:2]:
        result = evaluate(loss, tree, problem, parameter=tf.Variable)
        assert isinstance(result.dw, tf.IndexedSlices)
        assert isinstance(result.db, tf.IndexedSlices)


@pytest.mark.parametrize(
    ("name", "gradient", "expected"),
    [
        ("gather", False, 5 * 10 * 3),
        ("embedding_lookup", True, 3 * (10 + 5 * 10) * 3),
        ("map_fn", False, 10 * 3),
        ("map_fn", True, (10 * 110 + 5 * 20) * 3),
        ("full_softmax", False, 5 * 100),
        ("full_softmax", True, 2 * 5 * 100 + 100 * 3),
    ],
)
def test_peak_bytes(name, gradient, expected):
    tree = trees.CATALOGUE["two_level_100"]()
    assert (
        baselines.peak_bytes(
            name, tree, batch=5, width=3, itemsize=8, gradient=gradient
        )
        == 8 * expected
    )


def test_peak_bytes_refuses_an_unknown_name():
    with pytest.raises(ValueError, match="'scatter'"):
        baselines.peak_bytes(
            "scatter", trees.CATALOGUE["flat"](), batch=1, width=1, itemsize=4
        )
