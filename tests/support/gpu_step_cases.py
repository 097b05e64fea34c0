"""What the training step must do on a GPU: see gpu_cases."""

import functools

import numpy as np
import tensorflow as tf

from tests.support import references, training
from tests.support.gpu_cases import assert_close, build
from tests.support.update_rules import built, stepped


def check_train_step(
    place,
    rule,
    name,
    shape,
    dtype,
    has_biases,
    graph=False,
    label_smoothing=0.0,
    make=training.in_place,
):
    """Two steps in place, each against NumPy; other rows keep all bits.

    `make` makes one as `training.in_place` does.
    """
    tree = build(name)
    problem = training.wide_problem(tree, shape, dtype, 0, has_biases)
    with tf.device(place.device):
        variables = training.variables_of(problem, dtype)
        optimizer = built(rule, variables)
    for step in (1, 2):
        before = training.states(optimizer, variables)
        current = [state[0].astype(problem.weights.dtype) for state in before]
        problem = training.wide_problem(tree, shape, dtype, step).replace(
            weights=current[0],
            biases=current[1] if has_biases else None,
            label_smoothing=label_smoothing,
        )
        value, bound = references.hierarchical_softmax(
            tree, problem, operands=dtype
        )
        losses, dx = place.run(
            functools.partial(
                make,
                variables,
                problem,
                tree,
                optimizer,
                stochastic_rounding=False,
                label_smoothing=label_smoothing,
            ),
            graph,
        )
        assert losses.device.endswith(place.device), losses.device
        assert_close(losses, value.loss, bound.loss, "losses")
        assert_close(dx, value.dx, bound.dx, "gradient of inputs")
        rows = references.touched_rows(tree, problem.labels)
        others = np.setdiff1d(np.arange(tree.num_weight_rows), rows)
        for old, new, gradient, error in zip(
            before,
            training.states(optimizer, variables),
            (value.dw, value.db),
            (bound.dw, bound.db),
            strict=False,
        ):
            numbers, *slots = (x[rows].astype(float) for x in old)
            expected = stepped(
                optimizer,
                step,
                numbers,
                slots,
                gradient[rows],
                error[rows],
                np.dtype(dtype),
            )
            for i, (wanted, limit) in enumerate(zip(*expected, strict=True)):
                assert_close(new[i][rows], wanted, limit, f"{step}, array {i}")
                training.assert_same(new[i][others], old[i][others])


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
