"""The step from the state of a loss: what the state is good for.

`conformance_test` and `steps_test` compare it with other steps.
"""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.pairs import all_pairs
from tests.support.places import HERE
from tests.support.step_cases import (
    KEPT,
    check_two_steps,
    kept_state,
)
from tests.support.training import (
    assert_same,
    kept_loss,
    states,
    step_from,
    variables_of,
    wide_problem,
)
from tests.support.update_rules import built

DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]
TREE = tf_hsm.Tree.balanced(90, [30, 3])
SHAPE = 40, 17


@pytest.mark.parametrize("name, dtype", all_pairs(list(KEPT), DTYPES))
def test_parameters_that_have_moved(name, dtype):
    """The step is that of the present ones, to the bit."""
    tree, shape, _ = KEPT[name]
    problem = wide_problem(tree, shape, dtype)
    found = []
    for before, moved in [(1, False), (0.5, True), (0.5, False)]:
        variables = variables_of(problem, dtype)
        present = [v.numpy() for v in variables]
        for v in variables:
            v.assign(v * before)
        state = kept_state(name, variables, problem)
        for v, value in zip(variables, present, strict=True):
            v.assign(value)
        optimizer = built("adagrad", variables)
        step_from(state, variables, problem.upstream, optimizer, moved=moved)
        found.append(states(optimizer, variables))
    assert_same(found[0], found[1])
    assert (found[1][0][0] != found[2][0][0]).any()


@pytest.mark.parametrize("name", KEPT)
def test_a_state_serves_two_steps(name):
    check_two_steps(HERE, name)


OTHERS = "but comes from a loss with"
# What errors say, and states, as functions of a problem and its variables.
REFUSED = [
    (
        "but is empty",
        lambda p, v: loss_state(p, v, with_gradients=False),
    ),
    ("a variant of the type", lambda p, v: tf.raw_ops.OptionalNone()),
    ("must be a scalar", lambda p, v: tf.stack([loss_state(p, v)] * 2)),
    # States of losses of other weights.
    (OTHERS, lambda p, v: other_state(tf_hsm.Tree.two_level(50))),
    (OTHERS, lambda p, v: other_state(TREE, np.float64)),
    (OTHERS, lambda p, v: other_state(TREE, has_biases=False)),
]


def loss_state(problem, variables, tree=TREE, **options):
    labels, inputs = problem.labels, problem.inputs
    return kept_loss(variables, labels, inputs, tree, **options).state


def other_state(tree, dtype=np.float32, has_biases=True):
    """The state of a loss of other weights."""
    problem = wide_problem(tree, SHAPE, dtype, has_biases=has_biases)
    return loss_state(problem, variables_of(problem), tree)


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("message, wrong", REFUSED)
def test_refused_states(message, wrong, moved):
    """Nothing has changed; `handles_test` has other arguments."""
    problem = wide_problem(TREE, SHAPE)
    variables = variables_of(problem)
    optimizer = built("lazy_adam", variables)
    before = states(optimizer, variables)
    state = wrong(problem, variables)
    given = state, variables, problem.upstream, optimizer
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        step_from(*given, moved=moved)
    assert_same(states(optimizer, variables), before)
    if message == "must be a scalar":
        with pytest.raises(ValueError):
            tf.function(step_from).get_concrete_function(*given)
