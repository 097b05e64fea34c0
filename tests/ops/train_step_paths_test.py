"""The step in place trains as loss, gradient and apply do, on every path."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import trees
from tests.support.pairs import all_pairs
from tests.support.training import (
    assert_near,
    assert_same,
    in_place,
    in_two,
    states,
    variables_of,
    wide_problem,
)
from tests.support.update_rules import OPTIMIZERS, built
from tf_hsm import hierarchical_softmax_loss as loss_function
from tf_hsm import hierarchical_softmax_train_step as train_step

TREE = tf_hsm.Tree.two_level(50)


@pytest.mark.parametrize(
    "rule, name, dtype",
    all_pairs(
        list(OPTIMIZERS),
        ["two_level_1013", "chain_50", "random"],
        ["float32", "float64"],
    ),
)
def test_five_steps(rule, name, dtype):
    """Losses, input gradients, weights and slots are equal to rounding."""
    tolerance = 2e-5 if dtype == "float32" else 1e-13
    tree = trees.CATALOGUE[name]()
    results = []
    for step in (in_place, in_two):
        problem = wide_problem(tree, (40, 17), dtype)
        variables = variables_of(problem)
        optimizer = built(rule, variables)
        trace = []
        for seed in range(5):
            problem = wide_problem(tree, (40, 17), dtype, seed)
            trace += step(variables, problem, tree, optimizer)
        results.append([trace, states(optimizer, variables)])
    assert_near(*results, tolerance)


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_small_terms_of_a_large_batch(rule):
    """Each is lost beside its weight; their sum, as it should be, is not."""
    tree = tf_hsm.Tree.balanced(64, 64)
    changes = []
    for dtype in (np.float32, np.float64):
        w = tf.Variable(np.ones([64, 16], dtype))
        optimizer = built(rule, [w], rate=2.0**-12)
        train_step(
            w, None, np.zeros(256, int), np.ones([256, 16]), tree, optimizer
        )
        changes.append(1 - w.numpy()[1:].astype(np.float64))
    assert (changes[1] > 3e-6).all()
    np.testing.assert_allclose(*changes, atol=1e-7)


@pytest.mark.parametrize(
    "dtype, tolerance", [("bfloat16", 2.0**-6), ("float16", 2.0**-9)]
)
@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_a_step_of_16_bits(rule, dtype, tolerance):
    """Loss then apply round the gradient too, to 16 bits; in place does not."""
    dtype = tf.as_dtype(dtype).as_numpy_dtype
    problem = wide_problem(TREE, (40, 17), dtype)
    results = []
    for step, options in (
        (in_place, {"stochastic_rounding": False}),
        (in_two, {}),
    ):
        variables = variables_of(problem, dtype)
        optimizer = built(rule, variables)
        step(variables, problem, TREE, optimizer, **options)
        results.append(
            [
                x.astype("f4")
                for x in tf.nest.flatten(states(optimizer, variables))
            ]
        )
    assert_near(*results, tolerance)


def trained(step, rule, dtype, steps, schedule):
    """The mean losses of many steps in a function, and the variables."""
    problem = wide_problem(TREE, (32, 16), dtype)
    variables = variables_of(problem)
    optimizer = built(rule, variables, **schedule)

    @tf.function
    def run(labels, inputs):
        batch = problem.replace(
            labels=labels,
            inputs=inputs,
            upstream=np.full(32, 1 / 32, problem.upstream.dtype),
        )
        return tf.reduce_mean(step(variables, batch, TREE, optimizer)[0])

    rng = np.random.default_rng(0)
    centers = rng.normal(size=(TREE.num_classes, 16))
    losses = []
    for _ in range(steps):
        labels = rng.integers(TREE.num_classes, size=32)
        inputs = centers[labels] + rng.normal(scale=0.3, size=(32, 16))
        losses.append(
            run(tf.constant(labels), tf.constant(inputs, dtype)).numpy()
        )
    assert int(optimizer.iterations) == steps
    return losses, variables


@pytest.mark.parametrize(
    "rule, dtype",
    [
        (rule, ["float32", "float64"][i % 2])
        for i, rule in enumerate(OPTIMIZERS)
    ],
)
def test_curve_of_200_steps(rule, dtype):
    """The losses fall, and those of both ways stay equal to rounding."""
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    options = {"rate": 0.2 if rule == "sgd" else 0.05}
    losses, variables = trained(in_place, rule, dtype, 200, options)
    expected, others = trained(in_two, rule, dtype, 200, options)
    assert np.mean(losses[-20:]) < 0.5 * np.mean(losses[:20])
    np.testing.assert_allclose(losses, expected, rtol=tolerance)
    assert_near(variables, others, tolerance)


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_learning_rate_schedule(rule):
    """It is asked at every step, and so is a rate that is assigned."""
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
        [2, 4], [0.01, 0.0, 0.03]
    )
    results = [
        trained(step, rule, "float32", 7, {"rate": schedule})
        for step in (in_place, in_two)
    ]
    assert_near(*results, 1e-5)


@pytest.mark.parametrize("graph", [False, True])
def test_assigned_learning_rate(graph):
    """A traced function too takes the rate that the optimizer has now."""
    problem = wide_problem(TREE, (9, 16))
    variables = variables_of(problem)
    optimizer = built("adagrad", variables)

    def run():
        return train_step(
            *variables, problem.labels, problem.inputs, TREE, optimizer
        )

    run = tf.function(run) if graph else run
    run()
    before = variables[0].numpy()
    optimizer.learning_rate = 0.0
    run()
    assert_same(variables[0], before)
    optimizer.learning_rate = 0.1
    run()
    assert np.any(variables[0] != before)
    assert int(optimizer.iterations) == 3


@pytest.mark.parametrize("rule", OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_function_is_eager(rule, dtype):
    """The same bits, for batches of unknown size too."""
    problem = wide_problem(TREE, (33, 16), dtype)

    def run(wrap):
        variables = variables_of(problem, tf.as_dtype(dtype).as_numpy_dtype)
        optimizer = built(rule, variables)
        step = wrap(
            lambda labels, inputs, upstream: in_place(
                variables,
                problem.replace(
                    labels=labels, inputs=inputs, upstream=upstream
                ),
                TREE,
                optimizer,
            )
        )
        return [
            *step(problem.labels, problem.inputs, problem.upstream),
            *step(problem.labels, problem.inputs, problem.upstream),
            *states(optimizer, variables),
        ]

    traced = tf.function(
        input_signature=[
            tf.TensorSpec(None, tf.int64),
            tf.TensorSpec(None),
            tf.TensorSpec(None),
        ]
    )
    assert_same(run(lambda f: f), run(traced))


def test_keras_variables():
    """They are taken as TensorFlow's are."""
    problem = wide_problem(TREE, (33, 16))
    results = []
    for make in (tf.Variable, keras.Variable):
        variables = [make(problem.weights), make(problem.biases)]
        optimizer = built("lazy_adam", variables)
        losses = in_place(variables, problem, TREE, optimizer)
        results.append([losses, states(optimizer, variables)])
    assert_same(*results)


@pytest.mark.parametrize("graph", [False, True])
def test_one_update_for_any_number_of_gradients(graph):
    """None, one or two: the step belongs to the losses. Weights have none."""
    problem = wide_problem(TREE, (12, 16))
    results = []
    for gradients in range(3):
        variables = variables_of(problem)
        optimizer = built("adagrad", variables)
        x = tf.Variable(problem.inputs)

        def losses_of(x, variables=variables, optimizer=optimizer):
            return train_step(*variables, problem.labels, x, TREE, optimizer)

        call = tf.function(losses_of) if graph else losses_of
        with tf.GradientTape(persistent=True) as tape:
            total = tf.reduce_mean(call(x))
        for _ in range(gradients):
            dx, dw = tape.gradient(total, [x, variables[0]])
            assert dx is not None and dw is None
        assert int(optimizer.iterations) == 1
        results.append(states(optimizer, variables))
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])


def test_without_a_tape():
    """Nothing is recorded, and the step is the same."""
    problem = wide_problem(TREE, (12, 16))
    one, other = variables_of(problem), variables_of(problem)
    losses, _ = in_place(one, problem, TREE, built("sgd", one))
    arguments = problem.labels, problem.inputs, TREE, built("sgd", other)
    alone = train_step(*other, *arguments, loss_weights=problem.upstream)
    assert_same([losses, one], [alone, other])


def test_the_losses_are_those_before_the_step():
    """And the next ones those of what the step made."""
    problem = wide_problem(TREE, (12, 16))
    variables = variables_of(problem)
    optimizer = built("sgd", variables)
    arguments = problem.labels, problem.inputs, TREE
    for _ in range(2):
        expected = loss_function(*variables, *arguments)
        assert_same(train_step(*variables, *arguments, optimizer), expected)
