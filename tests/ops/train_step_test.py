"""The training step in place against NumPy; its loss weights and labels."""

import functools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import trees
from tests.support.pairs import all_pairs
from tests.support.training import (
    assert_near,
    assert_same,
    check_steps,
    check_the_default_minimizes_the_mean,
    in_place,
    in_two,
    states,
    variables_of,
    wide_problem,
)
from tests.support.update_rules import OPTIMIZERS, built

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
TREES = [
    "flat",
    "two_level_1013",
    "binary_37",
    "huffman_2ary",
    "chain_50",
    "random",
    "one_huge_group",
    "only_children",
    "single_class",
]
# (B, D) and biases. Few examples update a group at once, many update it later.
SHAPES = [((5, 3), True), ((67, 33), True), ((67, 33), False)]

TREE = tf_hsm.Tree.two_level(50)

build = functools.cache(lambda name: trees.CATALOGUE[name]())


@pytest.mark.parametrize(
    "name, rule, dtype, form",
    all_pairs(TREES, list(OPTIMIZERS), DTYPES, SHAPES),
)
def test_two_steps_against_numpy(rule, name, form, dtype):
    shape, has_biases = form
    check_steps(rule, build(name), shape, dtype, has_biases)


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_stochastic_rounding(rule):
    """To one of the two neighbours, the mean kept; by default, by a seed."""
    problem = wide_problem(TREE, (40, 257), ml_dtypes.bfloat16)

    def run(dtype=ml_dtypes.bfloat16, **options):
        variables = variables_of(problem, dtype)
        optimizer = built(rule, variables, rate=0.001)
        in_place(variables, problem, TREE, optimizer, **options)
        return [np.array(v.numpy()).astype(np.float32) for v in variables]

    exact, biases = run(np.float32)
    rounded, rounded_biases = run()
    nearest, _ = run(stochastic_rounding=False)
    spacing = 2.0 ** (np.floor(np.log2(abs(exact))) - 7)
    error, moved = rounded - exact, abs(exact - problem.weights)
    assert (abs(error) < spacing * 1.001).all()
    assert (abs(rounded_biases - biases) < 2.0**-7 * abs(biases)).all()
    # n roundings, each off by at most 1, of weights that the step moves.
    scaled = (error / spacing)[moved > 0]
    assert abs(scaled.mean()) < 4 * 0.5 / np.sqrt(scaled.size)
    assert np.count_nonzero(rounded != nearest) > 0.001 * scaled.size
    assert_same(run(seed=0)[0], rounded)
    assert_same(run(seed=7), run(seed=7))
    assert (run(seed=7)[0] != rounded).any()


def test_each_step_rounds_by_other_numbers():
    """A weight that was rounded up is not rounded up at every step."""
    tree = tf_hsm.Tree.balanced(64, 64)
    w = tf.Variable(tf.ones([64, 128], tf.bfloat16))
    optimizer = built("sgd", [w], rate=0.01)
    steps = []
    for _ in range(2):
        before = w.read_value()
        tf_hsm.hierarchical_softmax_train_step(
            w, None, [0], tf.ones([1, 128]), tree, optimizer
        )
        # All but the label's, which moves further than to its neighbour.
        steps.append((w != before).numpy()[1:])
        w.assign(before)
    both = (steps[0] & steps[1]).mean()
    chance = steps[0].mean() * steps[1].mean()
    assert 0 < chance < 0.5
    assert abs(both - chance) < 5 * np.sqrt(chance / steps[0].size)


@pytest.mark.parametrize("rule", OPTIMIZERS)
@pytest.mark.parametrize("ignore_class", [None, 7, -1])
def test_loss_weights(rule, ignore_class):
    """Given, zero for some and for all of a class; with ignored labels."""
    problem = wide_problem(TREE, (31, 20))
    upstream, labels = problem.upstream.copy(), problem.labels.copy()
    labels[3:9] = 7
    labels[20:22] = labels[0] if ignore_class is None else ignore_class
    upstream[10:15] = 0
    upstream[labels == 11] = 0
    problem = problem.replace(upstream=upstream, labels=labels)
    results = []
    for step in (in_place, in_two):
        variables = variables_of(problem)
        optimizer = built(rule, variables)
        for _ in range(2):
            last = step(
                variables, problem, TREE, optimizer, ignore_class=ignore_class
            )
        results.append([*last, *states(optimizer, variables)])
    assert_near(*results, 1e-5)


@pytest.mark.parametrize("ignore_class", [None, 7])
def test_the_default_minimizes_the_mean(ignore_class):
    """Over the labels that count, whatever their shape."""

    def step(variables, problem, **options):
        return tf_hsm.hierarchical_softmax_train_step(
            *variables,
            problem.labels,
            problem.inputs.reshape(2, 12, 20),
            TREE,
            **options,
        )

    check_the_default_minimizes_the_mean(step, TREE, ignore_class)


@pytest.mark.parametrize("has_loss_weights", [True, False])
@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_several_labels_are_ignored(rule, has_loss_weights):
    """As one label in the place of all of them would be."""
    problem = wide_problem(TREE, (31, 20))
    problem.labels[3:9], problem.labels[15:20] = 7, -3
    ignored = np.isin(problem.labels, [7, -3])
    alike = problem.replace(labels=np.where(ignored, 7, problem.labels))
    options = {} if has_loss_weights else {"loss_weights": None}
    results = []
    for given, several in ((problem, (7, -3)), (alike, 7)):
        variables = variables_of(given)
        optimizer = built(rule, variables)
        losses = tf_hsm.hierarchical_softmax_train_step(
            *variables,
            given.labels,
            given.inputs,
            TREE,
            optimizer,
            **({"loss_weights": given.upstream} | options),
            ignore_class=several,
        )
        results.append([losses, states(optimizer, variables)])
    assert_same(*results)


@pytest.mark.parametrize("rule", OPTIMIZERS)
@pytest.mark.parametrize("labels", [[], [[7, 7], [7, 7]]])
def test_no_label_counts(rule, labels):
    """An empty batch, or all ignored: nothing changes, and no NaN."""
    problem = wide_problem(TREE, (1, 20))
    variables = variables_of(problem)
    optimizer = built(rule, variables)
    before = states(optimizer, variables)
    labels = np.array(labels, np.int64)
    losses = tf_hsm.hierarchical_softmax_train_step(
        *variables,
        labels,
        np.ones([*labels.shape, 20], np.float32),
        TREE,
        optimizer,
        ignore_class=7,
    )
    assert_same(losses, np.zeros(labels.shape))
    assert_same(states(optimizer, variables), before)


@pytest.mark.parametrize("label_dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("shape", [[], [12], [3, 4], [2, 1, 6]])
def test_labels_of_any_shape(shape, label_dtype):
    """As the same labels in a row; loss weights broadcast to them."""
    flat = wide_problem(TREE, (int(np.prod(shape)), 20))
    weights = np.arange(1.0, 1.0 + (shape[-1] if shape else 1))
    shaped = flat.replace(
        labels=flat.labels.reshape(shape).astype(label_dtype),
        inputs=flat.inputs.reshape([*shape, 20]),
    )
    flat = flat.replace(
        upstream=np.broadcast_to(weights, shape or [1]).ravel().astype("f4")
    )
    results = []
    for problem, loss_weights in (
        (shaped, weights if shape else 1.0),
        (flat, flat.upstream),
    ):
        variables = variables_of(problem)
        losses, dx = in_place(
            variables,
            problem,
            TREE,
            built("adagrad", variables),
            loss_weights=loss_weights,
        )
        assert dx.shape == problem.inputs.shape
        results.append([np.ravel(losses), np.ravel(dx), variables])
    assert_same(*results)


@pytest.mark.parametrize("weights_dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_input_gradient_is_that_of_the_loss_op(dtype, weights_dtype):
    """To the bit, for inputs of any type, which their gradient keeps."""
    problem = wide_problem(TREE, (67, 20), weights_dtype)
    problem = problem.replace(inputs=tf.cast(problem.inputs, dtype))
    results = []
    for step in (in_place, in_two):
        variables = variables_of(
            problem, tf.as_dtype(weights_dtype).as_numpy_dtype
        )
        results.append(step(variables, problem, TREE, built("sgd", variables)))
    assert results[0][1].dtype == dtype
    assert_same(*results)
