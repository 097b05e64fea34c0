"""What the ops must refuse on a GPU, and what they must do instead.

Like `gpu_cases`, for labels, trees and states that are wrong.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle, references, training
from tests.support.answer_cases import arguments_of
from tests.support.evaluation import assert_within, dense
from tests.support.gpu_cases import solve
from tests.support.references import build
from tf_hsm import optimizers
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import child_tensors, tree_tensors


def check_rules_of_cpus(place):
    """What only CPUs have in a step in place: an error that changes nothing."""
    tree = build("random")
    problem = references.random_problem(tree, 7, 3, np.float32)
    for make, optimizer, match in (
        (
            training.in_place,
            optimizers.RMSprop(0.1, centered=True),
            "rmsprop_centered is for CPUs",
        ),
        (
            training.after_loss,
            optimizers.RMSprop(0.1, momentum=0.5),
            "rmsprop_momentum is for CPUs",
        ),
    ):
        with tf.device(place.device):
            variables = training.variables_of(problem)
            optimizer.build(variables)
        step = functools.partial(make, variables, problem, tree, optimizer)
        match = f"a step in place by the rule {match}"
        with pytest.raises(tf.errors.UnimplementedError, match=match):
            place.run(step)
        np.testing.assert_array_equal(variables[0], problem.weights)


def check_refusals(place):
    """A call that only CPUs can make is refused in a sentence.

    So are shapes, which the host knows, that do not fit.
    """
    loss = tf_hsm.hierarchical_softmax_loss
    log_probs = tf_hsm.hierarchical_softmax_log_probs
    log_prob = tf_hsm.hierarchical_softmax_log_prob
    find = tf_hsm.hierarchical_softmax_top_k
    sample = tf_hsm.hierarchical_softmax_sample

    def given(tree, dtype=np.float32, width=4):
        problem = oracle.random_problem(tree, 2, width, dtype)
        problem = problem.replace(weights=0 * problem.weights, biases=None)
        return *arguments_of(place, problem, tf.Variable), tree

    wide = tf_hsm.Tree.two_level(1100)
    even, doubles = given(wide), given(wide, np.float64)
    weights, biases, *at = empty = given(build("random"), width=0)
    narrow, other = ([[1.0, 2.0]] * 2, wide), (even[2], build("random"))
    draw = functools.partial(sample, *given(build(references.FORESTS[0])), 3)
    unable = tf.errors.UnimplementedError
    invalid = tf.errors.InvalidArgumentError
    unfit = invalid, ValueError  # where a graph is traced
    for error, message, *calls in [
        (unable, "beam_width = 4: th", lambda: find(*even, 2, beam_width=4)),
        (unable, "k = 1025 is above 1024", lambda: find(*even, 1025)),
        (unable, "k: .* float64 weights", lambda: find(*doubles, 2)),
        (unable, "top_k: .* float64", lambda: sample(*doubles, 2, top_k=3)),
        (unable, "top_k = 1050 is", lambda: sample(*even, 2, top_k=1050)),
        (
            unable,
            r"top_p = 0.97 is not reached by the 1024 most .* of input 0,",
            lambda: sample(*even, 2, top_p=0.97),
        ),
        (
            invalid,
            "the width 0",  # rows of no numbers
            lambda: loss(weights, biases, [0, 0], *at),
            lambda: log_probs(*empty),
            lambda: log_prob(weights, biases, [[0], [0]], *at),
            lambda: find(*empty, 1),
            lambda: sample(*empty, 1, seed=0),
        ),
        (
            invalid,
            "root_log_probs must be",
            lambda: draw(seed=1),
            lambda: draw(seed=1, top_k=3),
            lambda: draw(seed=1, top_p=0.5),
        ),
        (
            invalid,
            "is for a flat tree",
            lambda: loss(*even[:2], [0, 0], *even[2:], z_loss=0.1),
            lambda: loss(*even[:2], [0, 0], *even[2:], logit_soft_cap=2.0),
            lambda: log_probs(*even, logit_soft_cap=2.0),
            lambda: log_prob(
                *even[:2], [[0], [0]], *even[2:], logit_soft_cap=2.0
            ),
            lambda: find(*even, 1, logit_soft_cap=2.0),
            lambda: sample(*even, 1, seed=0, logit_soft_cap=2.0),
        ),
        (unfit, "inputs", lambda: loss(*even[:2], [0, 0], *narrow)),
        (unfit, "inputs", lambda: loss(*even[:2], [0], *even[2:])),
        # Where a graph is traced, TensorFlow compares the shapes first.
        (
            unfit,
            "row_groups|must be equal",
            lambda: loss(*even[:2], [0, 0], *other),
        ),
    ]:
        for call in calls:
            with pytest.raises(error, match=message):
                place.run(call)


def check_bad_labels(place, dtype, label_dtype):
    """NaN losses and no gradients for them; the others as if alone."""
    tree = build("two_level_100")
    problem = oracle.random_problem(tree, 20, 9, dtype)
    problem.labels[::4] = np.resize([100, -1, 2**31 - 1, -(2**31)], 5)
    good = np.arange(20) % 4 > 0
    alone = problem.replace(
        inputs=problem.inputs[good],
        labels=problem.labels[good],
        upstream=problem.upstream[good],
    )
    result = solve(place, tree, problem, label_dtype=label_dtype)
    expected, bound = oracle.hierarchical_softmax(tree, alone)
    actual = dense(result)
    assert np.isnan(actual.loss[~good]).all()
    assert not actual.dx[~good].any()
    kept = oracle.Result(
        actual.loss[good], actual.dx[good], actual.dw, actual.db
    )
    assert_within(kept, expected, bound)
    np.testing.assert_array_equal(
        result.dw.indices, oracle.touched_rows(tree, alone.labels)
    )


def check_broken_trees(
    place, op, array, index, value, message, name="two_level_7", nodes=False
):
    """An error that names the array, the position and the value.

    Args:
        place: A `Place`.
        op: "loss" or "log_probs".
        array: The array of the tree that is changed.
        index: The position there.
        value: The new number.
        message: A pattern of the error's message.
        name: The tree.
        nodes: Whether labels are rows.
    """
    tree = build(name)
    problem = references.random_problem(tree, 7, 3, np.float32)
    given = {
        "weights": problem.weights,
        "biases": [problem.biases],
        "inputs": problem.inputs,
        "pinned": tree.pinned,
        "Taccumulator": tf.float32,
    }
    if op == "loss":
        arrays = tree_tensors(tree, nodes=nodes)._asdict()
        given |= {"labels": np.arange(7), "smoothing_prior": []}
    else:
        arrays = child_tensors(tree)._asdict()
        starts = references.all_starts(tree, 7, np.float32)[1:]
        given |= {"root_log_probs": starts, "scales": []}
    broken = arrays[array].numpy()
    broken[index] = value
    with tf.device("CPU"):
        arrays[array] = tf.constant(broken)
    if op != "loss":
        arrays["root_groups"] = [arrays["root_groups"]]
    raw_op = getattr(raw_ops, f"tf_hsm_{op}")
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        place.run(lambda: raw_op(**given, **arrays)[0])


# The forest has twelve trees, the first of 6 groups and 55 rows.
_PINNED, _FOREST = "pinned binary_37", "below three_levels"
# For an op and an array, the other arguments of check_broken_trees.
BROKEN_TREES = {
    ("loss", "group_offsets"): [
        (1, 99, r"group_offsets\[1\] = 99 is outside"),
        (1, 0, r"group_offsets\[1\] = 0 is outside"),
        (1, 3, r"\[0\] = 0 and group_offsets\[1\] = 3, but .* pinned", _PINNED),
    ],
    ("loss", "group_parents"): [
        (0, 5, r"group_parents\[0\] = 5, but"),
        (1, 2**40, r"parents\[1\] = 1099511627776 is"),
        (1, -1, r"parents\[1\] = -1 is root number 2, but"),
        (7, 3, r"\[7\] = 3 is outside \[55, 60\), the rows of its", _FOREST),
        (6, 54, "has 11 times the -1 of a root, but .* of 12 trees", _FOREST),
        (8, -1, r"group_parents\[9\] = 57 is outside \[70, 80\)", _FOREST),
        # Two groups below one row, where labels are rows.
        (2, 0, r"rows, below group_parents\[2\] = 0", "two_level_7", True),
    ],
    ("loss", "row_groups"): [(-1, 77, r"row_groups\[\d+\] = 77, but group")],
    ("loss", "class_rows"): [
        (2, -5, r"class_rows\[2\] = -5 is outside"),
        (2, 2**40, r"rows\[2\] = 1099511627776 is outside"),
    ],
    ("loss", "class_ranks"): [
        (2, 2**40, r"ranks\[2\] = 1099511627776 is outside"),
        (2, 0, r"class_ranks\[2\] = 0 is another class's"),
        (
            slice(None),
            239 - build(_FOREST).class_ranks,  # trees in the reverse order
            r"class_ranks is not the .*, below group_parents\[\d+\] = -1",
            _FOREST,
        ),
        (
            [0, -1],
            # An inner row behind another subtree, where labels are rows.
            build("two_level_7").row_ranks[[-1, 0]],
            "class_ranks is not the depth-first order of this tree's rows",
            *("two_level_7", True),
        ),
    ],
    ("log_probs", "group_offsets"): [
        (0, 1, r"group_offsets\[0\] = 1 is outside"),
        (1, 99, r"group_offsets\[1\] = 99 is outside"),
        (-1, 9, r"group_offsets\[\d\] = 9 "),
        (1, 3, r"\[0\] = 0 and group_offsets\[1\] = 3, but .* pinned", _PINNED),
    ],
    ("log_probs", "row_below"): [
        (0, 77, r"row_below\[0\] = 77 is neither"),
        (0, -(2**40), r"\[0\] = -1099511627776 is neither"),
        (-1, -1, r"row_below\[\d+\] = -1 is a second leaf"),
    ],
    ("log_probs", "root_groups"): [
        (0, 1, r"root_groups\[0\] = 1 is outside", _FOREST),
        (2, 6, r"root_groups\[2\] = 6 is outside", _FOREST),
        (-1, 99, r"root_groups\[11\] = 99 is outside", _FOREST),
        (1, 7, "row_below: no row has group 6 below", _FOREST),
        (1, 5, r"root_groups\[1\] = 5", _FOREST),
    ],
}


def check_states(place, name, dtype):
    """A state is good for any number of gradients of its loss, and no other."""
    tree = build(name)
    problem = oracle.random_problem(tree, 70, 9, dtype)
    wider = oracle.random_problem(tree, 70, 10, dtype)
    other_dtype = np.float32 if dtype == np.float64 else np.float64

    def state(examples=70, **attributes):
        return raw_ops.tf_hsm_loss(
            weights=problem.weights,
            biases=[problem.biases],
            labels=problem.labels[:examples],
            inputs=problem.inputs[:examples],
            **tree_tensors(tree)._asdict(),
            smoothing_prior=[],
            Taccumulator=oracle.accumulator(dtype),
            **attributes,
        ).state

    def gradients(state, factor=1, of=problem, dtype=dtype, biases=True):
        upstream = problem.upstream.astype(oracle.accumulator(dtype))
        return raw_ops.tf_hsm_loss_grad(
            weights=of.weights.astype(dtype),
            biases=[of.biases.astype(dtype)] if biases else [],
            loss_grads=factor * upstream,
            state=state,
        )

    def several():
        kept = state()
        return [gradients(kept, factor) for factor in (1, 2, 1)]

    one, double, again = place.run(several)
    rows = oracle.touched_rows(tree, problem.labels)
    for found in (one, double, again):
        np.testing.assert_array_equal(found.rows, rows)
    for name in ("weight_grads", "bias_grads"):
        values = getattr(one, name).numpy()
        assert np.any(values)
        np.testing.assert_array_equal(values, getattr(again, name))
        least = 2.0**-14 if dtype == np.float16 else 0  # normal number
        normal = np.abs(values.astype(np.float64)) >= least
        assert normal.any()
        np.testing.assert_array_equal(
            2 * values[normal], getattr(double, name).numpy()[normal]
        )
    shape = r"but comes from a loss with \w+ weights of shape \[\d+,9\]"
    other = r"must come from a loss with \w+ weights"
    for message, call in (
        (shape, lambda: gradients(state(), of=wider)),
        (other, lambda: gradients(state(), dtype=other_dtype)),
        ("without biases, but", lambda: gradients(state(), biases=False)),
        ("loss_grads must have the", lambda: gradients(state(examples=35))),
        ("but is empty", lambda: gradients(state(with_gradients=False))),
        ("variant of the type", lambda: gradients(tf.raw_ops.OptionalNone())),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            place.run(call)
