"""What a loss keeps for its gradient, wherever that is asked for.

It is a variant: TensorFlow passes it on by functions, branches and loops, but
knows nothing of what is in it.
"""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import tree_tensors

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


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


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

    assert_close(gradients(function, parameters, inputs), expected)


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
    assert_close(found, [dw, db, dx])


def test_recomputed(parameters):
    """tf.recompute_grad runs the loss again, and drops the first state."""
    labels, inputs = batch(0)
    is_variable = isinstance(parameters[0], tf.Variable)

    @tf.recompute_grad
    def loss(x, *tensors):
        return total(tensors or parameters, labels, x)

    def function(x):
        return 3 * loss(x, *([] if is_variable else parameters))

    expected = gradients(
        lambda x: 3 * total(parameters, labels, x), parameters, inputs
    )
    for way in (function, tf.function(function)):
        assert_close(gradients(way, parameters, inputs), expected)


def test_a_persistent_tape_asks_twice(parameters):
    labels, inputs = batch(0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(parameters)
        value = total(parameters, labels, inputs)
        doubled = 2 * value
    once = [tf.convert_to_tensor(g) for g in tape.gradient(value, parameters)]
    again = [tf.convert_to_tensor(g) for g in tape.gradient(value, parameters)]
    twice = [
        tf.convert_to_tensor(g) for g in tape.gradient(doubled, parameters)
    ]
    for one, same, double in zip(once, again, twice, strict=True):
        np.testing.assert_array_equal(one, same)
        np.testing.assert_array_equal(2 * one, double)


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
    assert_close([tf.reduce_sum(rows, 0)], [expected])


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
    assert_close([found], [tf.stack(expected)])


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
        assert_close(function(), expected)


def state_of(**attributes):
    labels, inputs = batch(0)
    return raw_ops.tf_hsm_loss(
        weights=tf.zeros([TREE.num_rows, WIDTH]),
        biases=[],
        labels=labels,
        inputs=inputs,
        **tree_tensors(TREE)._asdict(),
        smoothing_prior=[],
        Taccumulator=tf.float32,
        **attributes,
    ).state


def test_it_is_a_scalar_that_cannot_be_stored():
    """No file or graph can hold one: what a gradient reads was made here."""
    state = state_of()
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
