"""The op's loss against the NumPy oracle: trees, types, shapes, ignored labels.

That of the baselines is in `baselines_test`.
"""

import functools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle, trees
from tests.support.evaluation import assert_within, dense, evaluate
from tests.support.pairs import all_pairs
from tf_hsm import baselines

OPS = {
    "op": (tf_hsm.hierarchical_softmax_loss, tf.constant),
    "op_on_variable": (tf_hsm.hierarchical_softmax_loss, tf.Variable),
}
DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]

SHAPES = [(1, 1), (5, 3), (17, 33), (67, 129), (252, 50)]  # (B, D)

FINITE_DIFFERENCE_TREES = [
    "two_level_7",
    "binary_37",
    "random",
    "chain_50",
    "single_class",
]

build = functools.cache(lambda name: {**trees.CATALOGUE, **trees.DEEP}[name]())


@functools.cache
def solved(name, shape, dtype, has_biases=True):
    """Returns a problem on a tree, its solution, and the error bounds."""
    tree = build(name)
    problem = oracle.random_problem(tree, *shape, dtype, seed=sum(shape))
    if not has_biases:
        problem = problem.replace(biases=None)
    return problem, *oracle.hierarchical_softmax(tree, problem)


def assert_exactly_the_touched_rows(result, tree, labels):
    """Asserts that the slices are unique, sorted, and no row too many."""
    expected = oracle.touched_rows(tree, labels)
    for gradient in (result.dw, result.db):
        assert isinstance(gradient, tf.IndexedSlices)
        np.testing.assert_array_equal(gradient.indices, expected)
        assert gradient.values.shape[0] == len(expected)


@pytest.mark.parametrize(
    "name, shape, dtype", all_pairs(list(trees.CATALOGUE), SHAPES, DTYPES)
)
def test_ops(name, shape, dtype):
    tree = build(name)
    problem, expected, bound = solved(name, shape, dtype)
    for i, (loss, parameter) in enumerate(OPS.values()):
        # Both types of labels with both forms, over the trees.
        swaps = list(trees.CATALOGUE).index(name) % 2
        result = evaluate(
            loss,
            tree,
            problem,
            parameter=parameter,
            label_dtype=[np.int32, np.int64][(i + swaps) % 2],
        )
        assert result.loss.dtype == oracle.accumulator(dtype)
        assert_within(dense(result), expected, bound)
        assert_exactly_the_touched_rows(result, tree, problem.labels)


@pytest.mark.parametrize("name", trees.CATALOGUE)
@pytest.mark.parametrize("implementation", OPS)
def test_float32_loss_is_that_of_gather_to_1e_5(implementation, name):
    loss, parameter = OPS[implementation]
    tree = build(name)
    problem, *_ = solved(name, (67, 129), np.float32)
    arguments = (
        parameter(problem.weights),
        parameter(problem.biases),
        problem.labels,
        problem.inputs,
        tree,
    )
    gather = baselines.gather_loss(*arguments).numpy()
    error = np.linalg.norm(loss(*arguments).numpy() - gather)
    # Relative to the norm: a loss near 0 is a difference of larger logits.
    assert error <= 1e-5 * np.linalg.norm(gather)


@pytest.mark.parametrize(
    "implementation, dtype", list(zip(2 * list(OPS), DTYPES, strict=True))
)
def test_a_chain_of_10000_levels(implementation, dtype):
    loss, parameter = OPS[implementation]
    tree = build("chain_10000")
    problem, expected, bound = solved("chain_10000", (3, 5), dtype)
    result = evaluate(loss, tree, problem, parameter=parameter)
    assert_within(dense(result), expected, bound)
    assert_exactly_the_touched_rows(result, tree, problem.labels)


@pytest.mark.parametrize(
    "leading_shape, graph, has_biases, implementation",
    all_pairs(
        [[], [6], [2, 3], [0], [3, 0]], [False, True], [True, False], list(OPS)
    ),
)
def test_leading_shapes(implementation, has_biases, leading_shape, graph):
    loss, parameter = OPS[implementation]
    batch = int(np.prod(leading_shape))
    problem, expected, bound = solved(
        "random", (batch, 7), np.float64, has_biases
    )
    result = evaluate(
        loss,
        build("random"),
        problem,
        parameter=parameter,
        leading_shape=leading_shape,
        graph=graph,
    )
    assert result.loss.shape == leading_shape
    assert result.dx.shape == [*leading_shape, 7]
    assert_within(dense(result), expected, bound)


@pytest.mark.parametrize("ignore_class", [-1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("implementation", OPS)
def test_ignored_examples_count_for_nothing(
    implementation, dtype, ignore_class
):
    loss, parameter = OPS[implementation]
    tree = build("random")
    problem = oracle.random_problem(tree, 20, 9, dtype)
    problem.labels[::3] = ignore_class
    expected, bound = oracle.hierarchical_softmax(tree, problem, ignore_class)
    problem.inputs[::3] = np.nan
    result = evaluate(
        loss, tree, problem, parameter=parameter, ignore_class=ignore_class
    )
    actual = dense(result)
    assert_within(actual, expected, bound)
    assert not actual.loss[::3].any()
    assert not actual.dx[::3].any()
    np.testing.assert_array_equal(
        result.dw.indices,
        oracle.touched_rows(tree, problem.labels, ignore_class),
    )


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("several", [[-1, 3], (7, -(2**63), 2**40), [3], []])
@pytest.mark.parametrize("implementation", OPS)
def test_several_labels_are_ignored(implementation, several, graph):
    """As one label in the place of all of them would be."""
    loss, parameter = OPS[implementation]
    tree = build("random")
    problem = oracle.random_problem(tree, 20, 9, np.float32)
    ignored = np.arange(20) % 3 < len(several)
    for i in np.flatnonzero(ignored):
        problem.labels[i] = several[i % len(several)]
    if several:
        ignored = np.isin(problem.labels, several)
    alike = problem.replace(labels=np.where(ignored, -1, problem.labels))
    expected, bound = oracle.hierarchical_softmax(tree, alike, -1)
    problem.inputs[ignored] = np.nan
    result = evaluate(
        loss,
        tree,
        problem,
        parameter=parameter,
        ignore_class=several,
        graph=graph,
    )
    assert_within(dense(result), expected, bound)
    np.testing.assert_array_equal(
        result.dw.indices, oracle.touched_rows(tree, alike.labels, -1)
    )


@pytest.mark.parametrize("implementation", OPS)
def test_ignored_labels_are_integers(implementation):
    """Anything else is an error rather than ignored."""
    loss, _ = OPS[implementation]
    tree = build("random")
    problem = oracle.random_problem(tree, 2, 3, np.float32)
    for wrong in (1.0, [1, 2.5], "3", [[1]]):
        with pytest.raises(TypeError, match="integer"):
            evaluate(loss, tree, problem, ignore_class=wrong)


@pytest.mark.parametrize("scale", [100.0, 1e4])
@pytest.mark.parametrize("name", ["two_level_100", "huffman_2ary"])
@pytest.mark.parametrize("implementation", OPS)
def test_large_logits(implementation, name, scale):
    loss, parameter = OPS[implementation]
    tree = build(name)
    problem = oracle.random_problem(tree, 20, 9, np.float32)
    problem = problem.replace(weights=np.float32(scale) * problem.weights)
    result = evaluate(loss, tree, problem, parameter=parameter)
    assert_within(dense(result), *oracle.hierarchical_softmax(tree, problem))


@pytest.mark.parametrize(
    "name, argument, implementation",
    all_pairs(
        FINITE_DIFFERENCE_TREES, ["inputs", "weights", "biases"], list(OPS)
    ),
)
def test_finite_differences(implementation, name, argument):
    loss, parameter = OPS[implementation]
    tree = build(name)
    problem = oracle.random_problem(tree, 4, 3, np.float64)
    gradients = dense(evaluate(loss, tree, problem, parameter=parameter))
    field = {"inputs": "dx", "weights": "dw", "biases": "db"}[argument]
    analytic = getattr(gradients, field)

    def total(array):
        changed = problem.replace(**{argument: array})
        losses = loss(
            tf.constant(changed.weights),
            tf.constant(changed.biases),
            changed.labels,
            changed.inputs,
            tree,
        )
        return losses.numpy() @ changed.upstream

    numeric = oracle.finite_differences(total, getattr(problem, argument))
    error = np.linalg.norm(numeric - analytic)
    # The gradient of a single class is zero: nothing to be relative to.
    assert error <= 1e-6 * np.linalg.norm(analytic)
