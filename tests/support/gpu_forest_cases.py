"""What the ops that go down a forest must do on a GPU: see gpu_cases."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import inference_reference as reference
from tests.support import oracle
from tests.support.gpu_inference_cases import arguments_of
from tests.support.references import (
    FORESTS,
    build,
    random_starts,
    roots_of_rows,
)
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import child_tensors


def problem_of(forest, batch, dtype, seed=0):
    """Draws a problem, and log-probabilities of the roots."""
    problem = oracle.random_problem(forest, batch, 5, dtype, seed)
    return problem, random_starts(forest, batch, dtype, seed)


def check_given_classes(place, name, dtype, label_dtype):
    """Those of given classes; -1 is below none of the roots."""
    forest = build(name)
    problem, starts = problem_of(forest, 6, dtype, 1)
    want, bound = reference.node_log_probs(forest, problem)
    want = want + starts[:, roots_of_rows(forest)]
    want, bound = (reference.by_class(forest, a) for a in (want, bound))
    rng = np.random.default_rng(0)
    classes = rng.integers(forest.num_classes, size=[6, 9])
    want, bound = (
        np.take_along_axis(a, classes, axis=1) for a in (want, bound)
    )
    elsewhere, wrong = rng.random((2, 6, 9)) < 0.3
    classes[elsewhere] = -1
    wrong &= ~elsewhere
    classes[wrong] = np.resize([forest.num_classes, -2], wrong.sum())
    weights, biases, inputs = arguments_of(place, problem, tf.Variable)

    def run(root_log_probs):
        return place.run(
            lambda: tf_hsm.hierarchical_softmax_log_prob(
                weights,
                biases,
                tf.constant(classes, label_dtype),
                inputs,
                forest,
                root_log_probs=root_log_probs,
            )
        ).numpy()

    values = run(starts)
    assert (values[elsewhere] == -np.inf).all()
    assert np.isnan(values[wrong]).all()
    known = ~elsewhere & ~wrong
    slack = 16 * oracle.unit_roundoff(values.dtype) * (3 + abs(want))
    reference.assert_near(np.where(known, values, want), want, bound + slack)
    # Without them each root is given, and -1 is no class.
    values = run(None)
    assert np.isnan(values[~known]).all() and (values[known] <= 0).all()


def check_top_k(place, name, dtype):
    """The bits and the order of a sort, with and without starts and bounds."""
    forest = build(name)
    problem, starts = problem_of(forest, 9, dtype)
    starts[3, : forest.num_roots // 2] = -np.inf
    starts[4] = -np.inf
    arguments = arguments_of(place, problem, tf.Variable)
    n = forest.num_classes
    for given in (None, starts):
        values = place.run(
            functools.partial(
                tf_hsm.hierarchical_softmax_log_probs,
                *arguments,
                forest,
                root_log_probs=given,
            )
        ).numpy()
        order = reference.ranking(values)
        sorted_values = np.take_along_axis(values, order, -1)
        bounds = sorted_values[:, n // 3].copy()
        bounds[1::3] += 0.01
        bounds[[2, 4, 5, 7]] = np.nan, -np.inf, np.inf, -np.inf
        for k in {1, min(5, n), n}:
            find = functools.partial(
                tf_hsm.hierarchical_softmax_top_k,
                *arguments,
                forest,
                k,
                root_log_probs=given,
            )
            found = place.run(find)
            np.testing.assert_array_equal(found.classes, order[:, :k])
            np.testing.assert_array_equal(found.log_probs, sorted_values[:, :k])
            found = place.run(functools.partial(find, bounds=bounds))
            least = np.where(np.isnan(bounds), -np.inf, bounds)
            left = sorted_values[:, :k] >= least[:, np.newaxis]
            left &= sorted_values[:, :k] > -np.inf
            np.testing.assert_array_equal(
                found.classes, np.where(left, order[:, :k], -1)
            )
            np.testing.assert_array_equal(
                found.log_probs, np.where(left, sorted_values[:, :k], -np.inf)
            )


def check_sample(place, name, dtype, **options):
    """The draws of the CPU, but where rounding moves the edge of a share."""
    forest = build(name)
    problem, starts = problem_of(forest, 4, dtype)
    starts[1, ::2] = -np.inf
    starts[2] -= 50
    call = functools.partial(
        tf_hsm.hierarchical_softmax_sample,
        tree=forest,
        num_samples=60,
        seed=[3, 2**40],
        **options,
    )
    with tf.device("CPU:0"):
        want = call(
            problem.weights,
            problem.biases,
            problem.inputs,
            root_log_probs=starts,
        ).numpy()
    arguments = arguments_of(place, problem)
    draws = place.run(
        functools.partial(call, *arguments, root_log_probs=starts)
    ).numpy()
    moved = 8 * oracle.operand_roundoff(dtype)
    assert np.mean(draws == want) > 0.99 - moved
    # No root, or NaN.
    starts[0], starts[3, -1] = -np.inf, np.nan
    draws = place.run(
        functools.partial(call, *arguments, root_log_probs=starts)
    ).numpy()
    assert (draws[0] == -1).all() and (draws[1:3] >= 0).all()
    assert (draws[3] == -1).all()


def check_no_starts(place):
    """Nothing says how probable several roots are."""
    forest = build(FORESTS[0])
    problem, _ = problem_of(forest, 2, np.float32)
    arguments = arguments_of(place, problem)
    for options in ({}, {"top_k": 3}, {"top_p": 0.5}):
        call = functools.partial(
            tf_hsm.hierarchical_softmax_sample,
            *arguments,
            forest,
            3,
            seed=1,
            **options,
        )
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="root_log_probs must be"
        ):
            place.run(call)


def check_one_root(place):
    """The log-probability of a tree's root counts for all of it."""
    tree = build("random")
    problem, starts = problem_of(tree, 5, np.float64)
    arguments = arguments_of(place, problem)
    values = [
        place.run(
            functools.partial(
                tf_hsm.hierarchical_softmax_log_probs,
                *arguments,
                tree,
                root_log_probs=given,
            )
        )
        for given in (starts, None)
    ]
    np.testing.assert_allclose(values[0], values[1] + starts, rtol=1e-13)


# Arguments of check_broken_roots, of a forest of twelve trees: root_groups.
BROKEN_ROOTS = [
    (lambda roots: [1, *roots[1:]], r"root_groups\[0\] = 1 is outside"),
    (lambda roots: [0, 6, 6, *roots[3:]], r"root_groups\[2\] = 6 is outside"),
    (lambda roots: [*roots[:-1], 99], r"root_groups\[11\] = 99 is outside"),
    (lambda roots: [0, 7, *roots[2:]], "row_below: no row has group 6 below"),
    (lambda roots: [0, 5, *roots[2:]], r"root_groups\[1\] = 5"),
]


def check_broken_roots(place, change, message):
    """An error that names the array, the position and the value."""
    forest = build("below three_levels")
    problem, starts = problem_of(forest, 3, np.float32)
    arrays = child_tensors(forest)._asdict()
    with tf.device("CPU"):
        roots = tf.constant(change(forest.root_groups.tolist()), tf.int64)
    arrays["root_groups"] = [roots]

    def run():
        return raw_ops.tf_hsm_log_probs(
            weights=problem.weights,
            biases=[problem.biases],
            inputs=problem.inputs,
            **arrays,
            root_log_probs=[starts],
            scales=[],
            Taccumulator=tf.float32,
        ).log_probs

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        place.run(run)
