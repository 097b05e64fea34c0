"""What a loss keeps for its gradient and for steps, wherever they are made.

It is a variant: TensorFlow passes it on by functions, branches and loops, but
knows nothing of what is in it. `conformance_test` and `steps_test` compare the
step with other steps.
"""

import pathlib

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.gpu_error_cases import check_states
from tests.support.pairs import all_pairs
from tests.support.places import HERE
from tests.support.step_cases import KEPT, check_two_steps, kept_state
from tests.support.training import (
    assert_near,
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
BATCH, WIDTH = 12, 7


@pytest.fixture(params=[tf.Variable, tf.constant])
def parameters(request):
    """Weights and biases, as variables or as tensors."""
    rng = np.random.default_rng(0)
    shape = TREE.num_rows, WIDTH
    return [
        request.param(rng.normal(size=size), dtype=tf.float32)
        for size in (shape, shape[:1])
    ]


def batch(number):
    """Labels and inputs."""
    rng = np.random.default_rng(number)
    return (
        tf.constant(rng.integers(0, TREE.num_classes, size=BATCH)),
        tf.constant(rng.normal(size=(BATCH, WIDTH)), tf.float32),
    )


def total(parameters, labels, inputs):
    return tf.reduce_sum(
        tf_hsm.hierarchical_softmax_loss(*parameters, labels, inputs, TREE)
    )


def gradients(function, parameters, inputs):
    """Those of function(inputs) by the parameters and inputs, as arrays."""
    sources = [*parameters, inputs]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        value = function(inputs)
    return [tf.convert_to_tensor(g) for g in tape.gradient(value, sources)]


def in_while(loss):
    """Losses that differ, of iterations in a while loop: 0 + 1 + 2 times."""

    def body(i, value):
        return i + 1, value + tf.cast(i, tf.float32) * loss(i)

    return tf.while_loop(lambda i, _: i < 3, body, (0, 0.0))[1]


def in_two_whiles(loss):
    def body(i, value):
        return i + 1, value + in_while(loss)

    return tf.while_loop(lambda i, _: i < 2, body, (0, 0.0))[1]


def in_cond(loss):
    return tf.cond(loss(0) > 0, lambda: 3 * loss(0), lambda: tf.square(loss(0)))


def in_cond_in_while(loss):
    def body(i, value):
        one = tf.cond(i < 1, lambda: loss(0), lambda: 2 * loss(0))
        return i + 1, value + one

    return tf.while_loop(lambda i, _: i < 2, body, (0, 0.0))[1]


def in_map(loss):
    return tf.reduce_sum(tf.map_fn(lambda i: loss(0), np.ones(3, np.float32)))


def in_functions(loss):
    inner = tf.function(lambda: loss(0))
    return inner() + 2 * inner()


@pytest.mark.parametrize(
    "way, factor",
    [
        (in_while, 3),
        (in_two_whiles, 6),
        (in_cond, 3),
        (in_cond_in_while, 3),
        (in_map, 3),
        (in_functions, 3),
    ],
)
def test_control_flow(parameters, way, factor):
    """Gradients through it are those of the loss alone, times a factor."""
    labels, inputs = batch(0)
    expected = gradients(
        lambda x: factor * total(parameters, labels, x), parameters, inputs
    )

    @tf.function
    def function(x):
        return way(lambda i: total(parameters, labels, x))

    assert_near(gradients(function, parameters, inputs), expected, 1e-5)


@pytest.mark.parametrize("traced", [True, False])
def test_a_loop_keeps_the_states_apart(parameters, traced):
    """Each iteration has other labels: in the end, the sum over all."""
    labels, inputs = zip(*(batch(i) for i in range(4)), strict=True)
    each = [
        gradients(
            lambda x, y=y: total(parameters, y, x), parameters, tf.identity(x)
        )
        for y, x in zip(labels, inputs, strict=True)
    ]
    dw, db = (sum(g[i] for g in each) for i in range(2))
    dx = tf.stack([g[2] for g in each])
    all_labels, all_inputs = tf.stack(labels), tf.stack(inputs)

    def function(x):
        def body(i, value):
            return i + 1, value + total(parameters, all_labels[i], x[i])

        return tf.while_loop(lambda i, _: i < 4, body, (0, 0.0))[1]

    if traced:
        function = tf.function(function)
    found = gradients(function, parameters, all_inputs)
    assert_near(found, [dw, db, dx], 1e-5)


@pytest.mark.parametrize("with_pfor", [True, False])
def test_jacobian(parameters, with_pfor):
    """One state for a gradient per loss."""
    labels, inputs = batch(0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(parameters)
        losses = tf_hsm.hierarchical_softmax_loss(
            *parameters, labels, inputs, TREE
        )
        value = tf.reduce_sum(losses)
    rows = tape.jacobian(losses, parameters[1], experimental_use_pfor=with_pfor)
    assert rows.shape == [BATCH, TREE.num_rows]
    expected = tf.convert_to_tensor(tape.gradient(value, parameters[1]))
    assert_near([tf.reduce_sum(rows, 0)], [expected], 1e-5)


def test_vectorized_map(parameters):
    """A state for each element."""
    labels, inputs = batch(0)

    def one(arguments):
        label, vector = arguments
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            value = total(parameters, label, vector)
        return tf.convert_to_tensor(tape.gradient(value, parameters[1]))

    found = tf.vectorized_map(one, (labels, inputs))
    expected = [one((labels[i], inputs[i])) for i in range(BATCH)]
    assert_near([found], [tf.stack(expected)], 1e-5)


def test_constants_are_not_folded(parameters):
    """A graph in which all inputs are known still makes its state itself."""
    labels, inputs = (x.numpy() for x in batch(0))
    constant = [tf.convert_to_tensor(p).numpy() for p in parameters]

    @tf.function
    def function():
        sources = [tf.constant(p) for p in constant]
        return gradients(
            lambda x: total(sources, labels, x), sources, tf.constant(inputs)
        )

    expected = gradients(
        lambda x: total(parameters, labels, x), parameters, tf.constant(inputs)
    )
    for _ in range(2):
        assert_near(function(), expected, 1e-5)


def test_it_is_a_scalar_that_cannot_be_stored():
    """No file or graph can hold one: what a gradient reads was made here."""
    weights = [tf.Variable(tf.zeros([TREE.num_rows, WIDTH]))]
    state = kept_loss(weights, *batch(0), TREE).state
    assert state.dtype == tf.variant and state.shape == []
    written = tf.io.serialize_tensor(state)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot parse"):
        tf.io.parse_tensor(written, tf.variant)


def resident_bytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_it_is_released_with_the_tape():
    """500 states of 2 MB come and go, and take the memory of 10."""
    tree = tf_hsm.Tree.balanced(1000, 1000)
    weights = tf.Variable(tf.zeros([tree.num_rows, 16]))
    inputs, labels = tf.zeros([500, 16]), tf.zeros([500], tf.int64)

    def record():
        with tf.GradientTape() as tape:
            losses = tf_hsm.hierarchical_softmax_loss(
                weights, None, labels, inputs, tree
            )
        return tape, losses

    held = [record() for _ in range(10)]
    before = resident_bytes()
    for _ in range(50):
        held = [record() for _ in range(10)]
    assert len(held) == 10
    assert resident_bytes() - before < 200e6


@pytest.mark.parametrize("name, dtype", all_pairs(list(KEPT), DTYPES))
def test_parameters_that_have_moved(name, dtype):
    """A step uses the present values of the variables, to the bit."""
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


@pytest.mark.parametrize(
    "name, dtype", all_pairs(["random", "two_level_7"], DTYPES)
)
def test_states_of_other_losses(name, dtype):
    check_states(HERE, name, dtype)
