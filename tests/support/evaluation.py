"""Runs a loss of `(weights, biases, labels, inputs, tree)` on problems.

Stands between the TensorFlow functions under test and the NumPy oracle.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support import oracle, references


def evaluate(
    loss_function,
    tree,
    problem,
    *,
    parameter=tf.constant,
    label_dtype=np.int64,
    leading_shape=None,
    ignore_class=None,
    graph=False,
):
    """Computes the loss and the gradients of sum(upstream * loss).

    Args:
        loss_function: Called as `tf_hsm.hierarchical_softmax_loss`.
        tree: A `tf_hsm.Tree`.
        problem: An `oracle.Problem`.
        parameter: `tf.constant` or `tf.Variable`, makes weights and biases.
        label_dtype: np.int32 or np.int64.
        leading_shape: The shape that the batch takes; `[B]` if None.
        ignore_class: Passed on.
        graph: Whether to run in a `tf.function` of unknown batch size.

    Returns:
        An `oracle.Result` of tensors as TensorFlow gives them, for `dense`;
        `db` is None in a problem without biases.
    """
    shape = [len(problem.labels)] if leading_shape is None else leading_shape
    dim = problem.inputs.shape[-1]
    weights = parameter(problem.weights)
    biases = None if problem.biases is None else parameter(problem.biases)
    sources = [weights] if biases is None else [weights, biases]

    def run(labels, inputs, upstream):
        with tf.GradientTape() as tape:
            tape.watch([inputs, *sources])
            loss = loss_function(
                weights,
                biases,
                labels,
                inputs,
                tree,
                ignore_class=ignore_class,
            )
        gradients = tape.gradient(
            loss,
            [inputs, *sources],
            output_gradients=upstream,
            # What a map over no examples never reads.
            unconnected_gradients="zero",
        )
        return loss, gradients

    labels = tf.constant(problem.labels.reshape(shape), label_dtype)
    inputs = tf.constant(problem.inputs.reshape([*shape, dim]))
    upstream = tf.constant(problem.upstream.reshape(shape))
    if graph:
        unknown = [None] * len(shape)
        run = tf.function(
            run,
            input_signature=[
                tf.TensorSpec(unknown, labels.dtype),
                tf.TensorSpec([*unknown, dim], inputs.dtype),
                tf.TensorSpec(unknown, upstream.dtype),
            ],
        )
    loss, (dx, dw, *db) = run(labels, inputs, upstream)
    return oracle.Result(loss, dx, dw, db[0] if db else None)


def smoothed_problems(tree, dtype):
    """Yields problems with label smoothing, the first without biases.

    They have few examples, whose groups are updated at once, or many.
    """
    for seed, (shape, share) in enumerate(
        [((5, 3), 0.25), ((67, 33), 0.25), ((5, 3), 1.0)]
    ):
        problem = oracle.random_problem(tree, *shape, dtype, seed)
        if seed == 0:
            problem = problem.replace(biases=None)
        yield problem.replace(label_smoothing=share)


def check_loss(tree, problem):
    """Asserts that the loss op and its gradients equal the references.

    The problem's label smoothing and prior are the op's options. The weights
    are a tensor once, and a variable once.
    """
    loss = functools.partial(
        tf_hsm.hierarchical_softmax_loss,
        label_smoothing=problem.label_smoothing,
        smoothing_prior=problem.smoothing_prior,
    )
    expected, bound = references.hierarchical_softmax(tree, problem)
    rows = references.touched_rows(tree, problem.labels)
    for parameter in (tf.constant, tf.Variable):
        result = evaluate(loss, tree, problem, parameter=parameter)
        assert_within(dense(result), expected, bound)
        np.testing.assert_array_equal(result.dw.indices, rows)
        assert tuple(result.dw.dense_shape) == problem.weights.shape


def dense(result):
    """Returns a result of float64 arrays, the batch dimensions flattened."""

    def array(tensor):
        return tf.convert_to_tensor(tensor).numpy().astype(np.float64)

    batch = int(tf.size(result.loss))
    return oracle.Result(
        loss=array(result.loss).reshape([batch]),
        dx=array(result.dx).reshape([batch, result.dx.shape[-1]]),
        dw=array(result.dw),
        db=None if result.db is None else array(result.db),
    )


def assert_within(actual, expected, bound):
    """Asserts, element by element, that |actual - expected| <= bound."""
    for field in dataclasses.fields(oracle.Result):
        values = getattr(actual, field.name)
        if values is None:
            continue
        error = abs(values - getattr(expected, field.name))
        limit = getattr(bound, field.name)
        assert values.shape == limit.shape, field.name
        # Written so that a NaN fails too.
        bad = ~(error <= limit)
        assert not bad.any(), (
            f"{field.name}: {bad.sum()} of {bad.size} elements are off, first"
            f" at {np.argwhere(bad)[0]}: error {error[bad][0]:.3g}, bound"
            f" {limit[bad][0]:.3g}"
        )
