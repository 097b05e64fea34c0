"""What the training step must do on a GPU: see gpu_cases."""

import functools

import numpy as np
import tensorflow as tf

from tests.support import references, training
from tests.support.references import build
from tests.support.update_rules import built


def check_train_step(place, rule, name, *args, **options):
    """Two steps in place, each against NumPy; other rows keep all bits."""
    training.check_steps(rule, build(name), *args, place=place, **options)


def check_weight_decay(place):
    """Touched rows alone shrink, besides a step of the rule.

    Biases that are left out keep -inf, which switches a row off.
    """
    tree = build("two_level_1013")
    problem = training.wide_problem(tree, (67, 33), np.float64)
    problem.biases[tree.num_rows - 1] = -np.inf
    problem.labels[0] = tree.num_classes - 2  # beside that row
    after = {}
    for decay in (None, 0.25):
        with tf.device(place.device):
            variables = training.variables_of(problem, np.float64)
            optimizer = built("lazy_adam", variables)
            optimizer.weight_decay = decay
            optimizer.exclude_from_weight_decay([variables[1]])
        place.run(
            functools.partial(
                training.in_place, variables, problem, tree, optimizer
            )
        )
        after[decay] = [v.numpy() for v in variables]
    rows = references.touched_rows(tree, problem.labels)
    shrinks = 0.25 * float(optimizer.learning_rate)
    (expected, biases), (weights, same_biases) = after.values()
    assert (weights[rows] != expected[rows]).any()
    expected[rows] -= shrinks * problem.weights[rows]
    np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-7)
    np.testing.assert_array_equal(same_biases, biases)
    assert biases[-1] == -np.inf


def check_steps_from_one_state(place):
    """The second of two steps is that of the parameters after the first."""
    problem = training.wide_problem(build("two_level_1013"), (67, 33))
    labels, inputs = problem.labels, problem.inputs
    found = []
    for has_one in (True, False):
        with tf.device(place.device):
            variables = training.variables_of(problem)
            optimizer = built("lazy_adam", variables)

        def run(has_one=has_one, variables=variables, optimizer=optimizer):
            tree = build("two_level_1013")
            state = training.kept_loss(variables, labels, inputs, tree).state
            training.step_from(state, variables, problem.upstream, optimizer)
            if not has_one:
                made = training.kept_loss(variables, labels, inputs, tree)
                state = made.state
            training.step_from(
                state, variables, -problem.upstream, optimizer, moved=has_one
            )
            return tf.zeros([])

        place.run(run)
        found.append(training.states(optimizer, variables))
    training.assert_same(*found)


def check_a_step_keeps_what_was_read(place):
    """Whoever has read a variable before a step in place keeps its values."""
    tree = build("two_level_100")
    problem = training.wide_problem(tree, (10, 4))
    with tf.device(place.device):
        variables = training.variables_of(problem)
        optimizer = built("sgd", variables)
        read = tf.identity(variables[0].read_value())
        held = variables[0].read_value()
    place.run(lambda: training.in_place(variables, problem, tree, optimizer)[0])
    np.testing.assert_array_equal(held, problem.weights)
    np.testing.assert_array_equal(read, problem.weights)
    assert (variables[0].numpy() != problem.weights).any()
