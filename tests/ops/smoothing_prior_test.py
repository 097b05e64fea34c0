"""Label smoothing towards a prior, against NumPy and Keras."""

import functools

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import embedding_training, forests, oracle, pinned, trees
from tests.support.evaluation import (
    assert_within,
    check_loss,
    dense,
    evaluate,
    smoothed_problems,
)
from tests.support.pairs import all_pairs
from tests.support.training import (
    assert_near,
    check_as_in_two,
    in_place,
    variables_of,
)
from tests.support.update_rules import OPTIMIZERS, built

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
NAMES = ["huffman_2ary", "random", "one_huge_group"]
# Few examples, whose groups are updated at once, and many.
CASES = [((5, 3), 0.25), ((67, 33), 0.25), ((5, 3), 1.0)]

build = functools.cache(lambda name: trees.CATALOGUE[name]())


def smoothed(prior, share=0.25):
    """The loss function with this prior."""
    return functools.partial(
        tf_hsm.hierarchical_softmax_loss,
        label_smoothing=share,
        smoothing_prior=prior,
    )


def losses_of(problem, tree, prior, share=0.25):
    return smoothed(prior, share)(
        problem.weights, problem.biases, problem.labels, problem.inputs, tree
    ).numpy()


def with_prior(problem, tree, share, seed=0):
    return problem.replace(
        label_smoothing=share,
        smoothing_prior=oracle.random_prior(tree, seed),
    )


@pytest.mark.parametrize("name, dtype", trees.typed(DTYPES))
def test_loss_and_gradients(name, dtype):
    tree = build(name)
    for i, problem in enumerate(smoothed_problems(tree, dtype)):
        check_loss(tree, with_prior(problem, tree, problem.label_smoothing, i))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", pinned.TREES)
def test_a_pinned_tree(name, dtype):
    tree = pinned.TREES[name]()
    for i, (shape, share) in enumerate(CASES):
        problem = pinned.random_problem(tree, *shape, dtype, seed=i)
        check_loss(tree, with_prior(problem, tree, share, i))


@pytest.mark.parametrize("batch", [40, 3000])
def test_wide_rows_of_a_large_gradient(batch):
    """Where the backward makes the probabilities again, and streams."""
    tree = tf_hsm.Tree.balanced(900, [3, 300])
    problem = oracle.random_problem(tree, batch, 40, np.float32)
    problem = with_prior(problem, tree, 0.25)
    expected, bound = oracle.hierarchical_softmax(tree, problem)
    loss = smoothed(problem.smoothing_prior)
    result = evaluate(loss, tree, problem, graph=True)
    assert_within(dense(result), expected, bound)


def test_the_gradient_is_that_of_the_loss():
    """By differences of the op's own losses."""
    tree = build("random")
    problem = oracle.random_problem(tree, 3, 4, np.float64)
    problem = with_prior(problem, tree, 0.375)

    def total(weights):
        changed = problem.replace(weights=weights)
        losses = losses_of(changed, tree, problem.smoothing_prior, 0.375)
        return losses @ problem.upstream

    loss = smoothed(problem.smoothing_prior, 0.375)
    result = dense(evaluate(loss, tree, problem))
    want = oracle.finite_differences(total, problem.weights)
    np.testing.assert_allclose(result.dw, want, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_even_shares_are_no_prior(name):
    tree = build(name)
    problem = oracle.random_problem(tree, 20, 5, np.float32)
    even = 1 / np.diff(tree.group_offsets)[tree.row_groups]
    assert_near(
        losses_of(problem, tree, even), losses_of(problem, tree, None), 1e-5
    )


def test_one_group_is_flat_smoothing():
    tree = tf_hsm.Tree.balanced(30, [30])
    problem = oracle.random_problem(tree, 9, 5, np.float32)
    counts = np.arange(30)
    losses = losses_of(problem, tree, tree.row_shares(counts))
    logits = problem.inputs @ problem.weights.T + problem.biases
    one_hot = np.eye(30)[problem.labels]
    want = keras.losses.categorical_crossentropy(
        0.75 * one_hot + 0.25 * counts / counts.sum(),
        logits[:, tree.class_rows],
        from_logits=True,
    )
    np.testing.assert_allclose(losses, want, rtol=1e-5)


@pytest.mark.parametrize("name", ["huffman_2ary", "random", "only_children"])
def test_labels_of_the_prior_are_smoothed_as_flatly(name):
    """In the sum over all labels by their shares: see docs/math.md."""
    tree = build(name)
    prior = np.random.default_rng(1).random(tree.num_classes)
    prior[::3] = 0
    prior /= prior.sum()
    problem = oracle.random_problem(tree, 1, 4, np.float64)
    problem = problem.replace(
        labels=np.arange(tree.num_classes),
        inputs=np.tile(problem.inputs, [tree.num_classes, 1]),
    )
    shares = tree.row_shares(prior)
    on_paths = losses_of(problem, tree, shares, 1.0)
    flat = losses_of(problem, tree, None, 0.0)
    np.testing.assert_allclose(prior @ on_paths, prior @ flat, rtol=1e-6)


@pytest.mark.parametrize(
    "rule, name, dtype, shape",
    all_pairs(list(OPTIMIZERS), NAMES, DTYPES[:3], [(5, 3), (67, 33)]),
)
def test_a_step_is_that_of_loss_and_optimizer(rule, name, shape, dtype):
    tree = build(name)
    check_as_in_two(
        rule,
        tree,
        shape,
        dtype,
        label_smoothing=0.25,
        smoothing_prior=oracle.random_prior(tree),
    )


@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_step_of_embeddings(is_pinned):
    tree = build("huffman_2ary")
    tree = tree.pin() if is_pinned else tree
    draw = pinned.random_problem if is_pinned else oracle.random_problem
    embedding_training.check_as_in_two(
        tree,
        draw(tree, 40, 7, np.float32),
        label_smoothing=0.5,
        smoothing_prior=tf.constant(oracle.random_prior(tree)),
    )


def test_a_forest():
    tree = tf_hsm.Tree.huffman(range(1, 49), branching=3)
    cut = forests.cut(tree, forests.some_rows(tree, 1))
    problem = oracle.random_problem(cut.forest, 30, 5, np.float64)
    problem = with_prior(problem, cut.forest, 0.25)
    expected, _ = oracle.hierarchical_softmax(cut.forest, problem)
    losses = losses_of(problem, cut.forest, problem.smoothing_prior)
    np.testing.assert_allclose(losses, expected.loss, rtol=1e-12)


def test_labels_at_inner_nodes():
    """The loss of a path that ends early is that of its groups."""
    tree = tf_hsm.Tree.balanced(27, 3)
    problem = oracle.random_problem(tree, 3, 4, np.float64)
    prior = oracle.random_prior(tree)
    losses = smoothed(prior)(
        problem.weights,
        problem.biases,
        np.arange(3),
        problem.inputs,
        tree,
        nodes=True,
    )
    top = tf_hsm.Tree.balanced(3, 3)
    want = smoothed(prior[:3])(
        problem.weights[:3],
        problem.biases[:3],
        np.arange(3),
        problem.inputs,
        top,
    )
    np.testing.assert_allclose(losses, want, rtol=1e-12)


def test_an_only_child_has_no_gradient():
    tree = tf_hsm.Tree.from_nested([[0], [1, 2]])
    problem = oracle.random_problem(tree, 9, 4, np.float32)
    problem = problem.replace(labels=np.zeros(9, int))
    prior = tree.row_shares([1, 2, 3])
    result = dense(evaluate(smoothed(prior), tree, problem))
    (child,) = tree.class_rows[:1]
    np.testing.assert_array_equal(result.dw[child], 0)
    np.testing.assert_array_equal(result.db[child], 0)


@pytest.mark.parametrize("share", [0.25, 1.0])
@pytest.mark.parametrize("fanout", [2, 3, 20])
def test_a_row_that_is_switched_off(fanout, share):
    """Without a share of the prior, only its own label has no finite loss."""
    tree = tf_hsm.Tree.balanced(fanout, [fanout])
    problem = oracle.random_problem(tree, fanout, 4, np.float32)
    is_off = np.arange(fanout) == 1
    biases = np.where(is_off, -np.inf, problem.biases).astype(np.float32)
    problem = problem.replace(biases=biases, labels=np.arange(fanout))
    prior = tree.row_shares(1 - is_off)
    result = dense(evaluate(smoothed(prior, share), tree, problem))
    is_infinite = is_off & (share < 1)
    np.testing.assert_array_equal(result.loss == np.inf, is_infinite)
    assert np.isfinite(result.loss[~is_infinite]).all()
    assert np.isfinite(result.dw).all() and np.isfinite(result.dx).all()


def test_kinds_of_arrays():
    tree = build("random")
    problem = oracle.random_problem(tree, 5, 3, np.float32)
    prior = tree.row_shares(np.arange(tree.num_classes))
    want = losses_of(problem, tree, prior)
    for given in (
        prior.tolist(),
        prior.astype(np.float32),
        tf.constant(prior),
        tf.Variable(prior),
    ):
        np.testing.assert_array_equal(losses_of(problem, tree, given), want)


BAD = {
    "short": (lambda p: p[:-1], r"shape \[9\], but has \[8\]"),
    "long": (lambda p: np.append(p, 1), r"shape \[9\], but has \[10\]"),
    "a matrix": (lambda p: p[:, None], r"shape \[9\], but has \[9,1\]"),
    "a number": (lambda p: 0.5, r"shape \[9\], but has \[\]"),
    "NaN": (lambda p: _at(p, 0, np.nan), r"prior\[0\] = nan is outside"),
    "negative": (lambda p: _at(p, 1, -0.1), r"prior\[1\] = -0.10* is outside"),
    "infinite": (lambda p: _at(p, 2, np.inf), r"prior\[2\] = inf is outside"),
    "above 1": (lambda p: _at(p, 2, 1.5), r"prior\[2\] = 1.50* is outside"),
    "no sum": (
        lambda p: _at(p, 2, 0.25 + p[2]),
        r"sums to 1.250* in group 0, the rows 0 to 2",
    ),
    "counts": (lambda p: np.arange(9) / 9, "sums to 0.33.* in group 0"),
    "zeros": (lambda p: 0 * p, "sums to 0.0* in group 0, the rows 0 to 2"),
}


def _at(prior, row, value):
    changed = prior.copy()
    changed[row] = value
    return changed


@pytest.mark.parametrize("name", BAD)
def test_bad_priors(name):
    spoil, message = BAD[name]
    tree = tf_hsm.Tree.from_nested([[0, 1, 2], [3, 4, 5], 6])
    problem = oracle.random_problem(tree, 4, 3, np.float32)
    problem = problem.replace(labels=np.array([0, 1, 2, 6]))
    prior = spoil(tree.row_shares(np.arange(1, 8)))
    message = "smoothing_prior.*" + message
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        losses_of(problem, tree, prior)
    variables = variables_of(problem)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        in_place(
            variables,
            problem,
            tree,
            built("sgd", variables),
            label_smoothing=0.5,
            smoothing_prior=prior,
        )
    np.testing.assert_array_equal(variables[0], problem.weights)


def test_a_wrong_shape_is_seen_where_a_graph_is_traced():
    tree = build("random")
    problem = oracle.random_problem(tree, 4, 3, np.float32)
    loss = smoothed(np.ones(tree.num_rows - 1))
    with pytest.raises(ValueError, match="115 and 116"):
        evaluate(loss, tree, problem, graph=True)


def test_groups_beside_the_paths_are_not_looked_at():
    tree = tf_hsm.Tree.from_nested([[0, 1, 2], [3, 4, 5], 6])
    problem = oracle.random_problem(tree, 3, 3, np.float32)
    prior = tree.row_shares()
    want = losses_of(problem.replace(labels=np.arange(3)), tree, prior)
    prior[tree.class_rows[3:6]] = np.nan
    got = losses_of(problem.replace(labels=np.arange(3)), tree, prior)
    np.testing.assert_array_equal(got, want)
    ignored = smoothed(prior)(
        problem.weights,
        problem.biases,
        np.array([0, 4, 4]),
        problem.inputs,
        tree,
        ignore_class=4,
    )
    np.testing.assert_array_equal(ignored, [want[0], 0, 0])


def test_a_prior_without_smoothing():
    tree = build("random")
    problem = oracle.random_problem(tree, 4, 3, np.float32)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="smoothing_prior is for a label_smoothing above 0",
    ):
        losses_of(problem, tree, tree.row_shares(), 0.0)
