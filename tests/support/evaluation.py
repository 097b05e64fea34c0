"""Runs a loss of `(weights, biases, labels, inputs, tree)` on problems.

Stands between the TensorFlow functions under test and the NumPy oracle.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support import inference_reference, oracle, references, trees
from tests.support.places import HERE


def evaluate(
    loss_function,
    tree,
    problem,
    *,
    parameter=tf.constant,
    label_dtype=np.int64,
    leading_shape=None,
    graph=False,
    place=HERE,
    **options,
):
    """Computes the loss and the gradients of sum(upstream * loss).

    Args:
        loss_function: Called as `tf_hsm.hierarchical_softmax_loss`.
        tree: A `tf_hsm.Tree`.
        problem: An `oracle.Problem`; its label smoothing, prior, soft cap and
            z-loss, if any, are options of the call.
        parameter: `tf.constant` or `tf.Variable`, makes weights and biases.
        label_dtype: np.int32 or np.int64.
        leading_shape: The shape that the batch takes; `[B]` if None.
        graph: Whether to run in a `tf.function`; here, of unknown batch size.
        place: A `Place`.
        **options: Passed on.

    Returns:
        An `oracle.Result` of tensors as TensorFlow gives them, for `dense`;
        `db` is None in a problem without biases.
    """
    shape = [len(problem.labels)] if leading_shape is None else leading_shape
    dim = problem.inputs.shape[-1]
    with tf.device(place.device):
        sources = [
            parameter(array)
            for array in (problem.weights, problem.biases)
            if array is not None
        ]
        given = (
            tf.constant(problem.labels.reshape(shape), label_dtype),
            tf.constant(problem.inputs.reshape([*shape, dim])),
            tf.constant(problem.upstream.reshape(shape)),
        )
        if problem.smoothing_prior is not None:
            options["smoothing_prior"] = tf.constant(problem.smoothing_prior)
    for name in ("label_smoothing", "logit_soft_cap", "z_loss"):
        if getattr(problem, name):
            options[name] = getattr(problem, name)

    def run(labels, inputs, upstream):
        with tf.GradientTape() as tape:
            tape.watch([inputs, *sources])
            loss = loss_function(
                *(sources if len(sources) == 2 else [*sources, None]),
                labels,
                inputs,
                tree,
                **options,
            )
        return loss, *tape.gradient(
            loss,
            [inputs, *sources],
            output_gradients=upstream,
            # What a map over no examples never reads.
            unconnected_gradients="zero",
        )

    if graph and place is HERE:
        unknown = [
            tf.TensorSpec([None] * len(shape) + [dim][: i == 1], each.dtype)
            for i, each in enumerate(given)
        ]
        run = tf.function(run, input_signature=unknown)
        graph = False
    loss, dx, dw, *db = place.run(lambda: run(*given), graph)
    return oracle.Result(loss, dx, dw, db[0] if db else None)


def check_loss(
    tree,
    problem,
    parameters=(tf.constant, tf.Variable),
    nodes=False,
    ignore_class=None,
    **options,
):
    """Asserts that the loss op and its gradients equal the references.

    Args:
        tree: A `tf_hsm.Tree` or a `tf_hsm.Forest`.
        problem: An `oracle.Problem`. Its label smoothing and prior are the op's
            options. Inputs of ignored labels become NaN.
        parameters: The kinds of weights, each with labels of another type.
        nodes: Whether labels are rows.
        ignore_class: A label, or several, that count for nothing.
        **options: The options of `evaluate`.
    """
    of_labels = trees.OfRows(tree) if nodes else tree
    ignored = [] if ignore_class is None else ignore_class
    is_ignored = np.isin(problem.labels, ignored)
    known = problem.replace(labels=np.where(is_ignored, -1, problem.labels))
    expected, bound = references.hierarchical_softmax(
        of_labels, known, ignore_class=-1
    )
    rows = references.touched_rows(of_labels, known.labels, -1)
    problem.inputs[is_ignored] = np.nan
    dtype = problem.weights.dtype
    place = options.get("place", HERE)
    for i, parameter in enumerate(parameters):
        result = evaluate(
            functools.partial(
                tf_hsm.hierarchical_softmax_loss,
                nodes=nodes,
                ignore_class=ignore_class,
            ),
            tree,
            problem,
            parameter=parameter,
            label_dtype=[np.int32, np.int64][i % 2],
            **options,
        )
        assert result.loss.dtype == oracle.accumulator(dtype)
        assert result.dx.dtype == problem.inputs.dtype
        assert result.loss.device.endswith(place.device)
        shape = options.get("leading_shape", [len(problem.labels)])
        assert result.loss.shape == shape
        assert result.dx.shape == [*shape, problem.inputs.shape[1]]
        actual = dense(result)
        assert_within(actual, expected, bound)
        assert not actual.loss[is_ignored].any()
        assert not actual.dx[is_ignored].any()
        for slices in (result.dw, result.db):
            if slices is None:
                continue
            assert slices.values.device.endswith(place.device)
            assert slices.values.dtype == dtype
            np.testing.assert_array_equal(slices.indices, rows)
            assert len(slices.values) == len(rows)
            assert slices.dense_shape[0] == len(problem.weights)


def check_random_loss(
    place,
    name,
    shape,
    dtype,
    smoothed=(0.0, False),
    *,
    has_biases=True,
    nodes=False,
    ignore_class=None,
    logit_soft_cap=None,
    z_loss=0.0,
    **options,
):
    """Asserts what `check_loss` does, of a random problem.

    Args:
        place: A `Place`.
        name: One of `references.NAMES`.
        shape: The number of inputs and their width.
        dtype: The type of inputs and weights.
        smoothed: The share of label smoothing, and whether to a random prior.
        has_biases: Whether there are biases.
        nodes: Whether labels are rows.
        ignore_class: A label, or several, that some inputs have.
        logit_soft_cap: For a flat tree.
        z_loss: For a flat tree.
        **options: The options of `evaluate`.
    """
    tree = references.build(name)
    problem = references.random_problem(
        trees.OfRows(tree) if nodes else tree,
        *shape,
        dtype,
        sum(shape),
        smoothed,
        has_biases,
        logit_soft_cap=logit_soft_cap,
        z_loss=z_loss,
    )
    ignored = [] if ignore_class is None else np.ravel(ignore_class)
    for i, label in enumerate(ignored):
        problem.labels[i :: 3 * len(ignored)] = label
    check_loss(
        tree,
        problem,
        nodes=nodes,
        ignore_class=ignore_class,
        place=place,
        **options,
    )


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
        values, wanted, limit = (
            getattr(result, field.name) for result in (actual, expected, bound)
        )
        if values is not None:
            inference_reference.assert_near(values, wanted, limit, field.name)
