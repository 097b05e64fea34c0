"""Malformed arguments of the ops that use a trained tree, and of the functions.

These are chosen; `tests/fuzz` has random ones.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle, random_calls
from tf_hsm import hierarchical_softmax_log_prob as log_prob
from tf_hsm import hierarchical_softmax_log_probs as log_probs
from tf_hsm import hierarchical_softmax_sample as sample
from tf_hsm import hierarchical_softmax_top_k as top_k

ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.FailedPreconditionError,
    tf.errors.NotFoundError,
)


@pytest.mark.parametrize("op", random_calls.INFERENCE)
def test_a_handle_of_something_else(op):
    """A handle that is no variable's, or of one of another type."""
    call = random_calls.small_call(op, on_variables=True)
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    double = tf.Variable(np.zeros((3, 2)))
    unset = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[3, 2])
    for handle in (table.resource_handle, double.handle, unset):
        call.arguments["weights"] = [handle]
        with pytest.raises(ERRORS, match="weights"):
            call.run()


@pytest.mark.parametrize("op", random_calls.INFERENCE)
def test_a_width_beyond_all_memory(op):
    """No rows of any width take no memory, and no product may overflow."""
    call = random_calls.small_call(op)
    call.arguments.update(
        group_offsets=[np.zeros(2, np.int64)],
        weights=[tf.zeros([0, 2**63 - 1])],
        inputs=[tf.zeros([0, 2**63 - 1])],
        biases=[np.zeros(0, np.float32)],
        row_below=[np.zeros(0, np.int64)],
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="weights"):
        call.run()


@pytest.mark.parametrize("op", ["top_k", "sample"])
def test_a_group_below_two_rows(op):
    """No tree: a search of one would meet the last group 2^11 times."""
    groups = 12
    below = np.repeat(np.arange(1, groups + 1), 2)
    below[-2:] = -1, -2
    call = random_calls.small_call(op)
    call.arguments.update(
        weights=[np.zeros([2 * groups, 1], np.float32)],
        biases=[np.zeros(2 * groups, np.float32)],
        inputs=[np.zeros([1, 1], np.float32)],
        group_offsets=[np.arange(0, 2 * groups + 1, 2)],
        row_below=[below],
        root_log_probs=[],
    )
    if op == "top_k":
        call.arguments.update(
            k=[np.array(5)],
            beam_width=[np.array(0)],
            bounds=[],
            row_spans=[],
            allowed_ranks=[],
            allowed_splits=[],
        )
    else:
        call.arguments.update(
            num_samples=[np.array(1)],
            temperature=[np.array(1.0)],
            top_k=[np.array(0)],
            top_p=[np.array(0.9)],
        )
    with pytest.raises(tf.errors.InvalidArgumentError, match="row_below"):
        call.run()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"row_spans": np.zeros([3, 2], int)}, "row_spans must have the shape"),
        ({"allowed_ranks": np.zeros([4, 1], int)}, r"the shape \[n\]"),
        (
            {"allowed_splits": np.array([0, 2, 4])},
            r"allowed_splits must .* 3 ",
        ),
        ({"allowed_splits": np.array(4)}, "allowed_splits must have the shape"),
        ({"allowed_splits": np.array([1, 4])}, r"splits\[0\] = 1 is outside"),
        ({"allowed_splits": np.array([0, 5])}, r"splits\[1\] = 5 is outside"),
        (
            {"allowed_splits": np.array([0, 2, 1, 4])},
            r"splits\[2\] = 1 is outside \[2, 5\)",
        ),
        ({"allowed_splits": np.array([0, 3])}, r"= 3, but there are 4 allowed"),
        (
            {"allowed_ranks": np.array([1, 7, 4, 29])},
            r"allowed_ranks\[2\] = 4 is outside \[7, 30\), .* ascend",
        ),
        (
            {"allowed_ranks": np.array([1, 7, 9, 30])},
            r"allowed_ranks\[3\] = 30 is outside \[9, 30\)",
        ),
        (
            {"allowed_ranks": np.array([-1, 7, 9, 29])},
            r"allowed_ranks\[0\] = -1 is outside \[0, 30\)",
        ),
    ],
)
def test_masks(changes, message):
    """Sizes and lists are checked; what a row's span says, is not."""
    call = random_calls.small_call("top_k")
    tree = tf_hsm.Tree.two_level(30)
    right = {
        "row_spans": tree.row_spans,
        "allowed_ranks": np.array([1, 7, 9, 29]),
        "allowed_splits": np.array([0, 4]),
    }
    call.arguments.update({k: [v] for k, v in right.items()})
    call.run()
    call.arguments.update({k: [v] for k, v in changes.items()})
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call.run()
    call.arguments.update({k: [v, v] for k, v in right.items()})
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most one"):
        call.run()


TREE = tf_hsm.Tree.huffman(1 + np.arange(60) ** 2, branching=3)
PROBLEM = oracle.random_problem(TREE, 4, 3, np.float32)
ARGUMENTS = PROBLEM.weights, PROBLEM.biases, PROBLEM.inputs


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda w, b, x, c: (w[:-1], b[:-1], x, c), "row_below .*this tree"),
        (lambda w, b, x, c: (w, b[:-1], x, c), "biases"),
        (lambda w, b, x, c: (w, b, x[:, :-1], c), "inputs"),
        (lambda w, b, x, c: (w, b, x[0, 0], c), "inputs"),
        (lambda w, b, x, c: (w[0], b, x, c), "weights"),
        (lambda w, b, x, c: (w, b, x, c[:-1]), "classes"),
        (lambda w, b, x, c: (w, b, x, c[0, 0]), "classes"),
    ],
)
def test_shapes_that_do_not_fit(change, message):
    """Eagerly the kernel says what is wrong; in a graph the shapes do."""
    w, b, x, c = change(*ARGUMENTS, np.zeros([4, 2], np.int64))
    calls = [lambda: log_prob(w, b, c, x, TREE)]
    if message != "classes":
        calls.append(lambda: log_probs(w, b, x, TREE))
        calls.append(lambda: top_k(w, b, x, TREE, 2))
        calls.append(lambda: sample(w, b, x, TREE, 2))
    for function in calls:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            function()
        with pytest.raises(ValueError):
            tf.function(function, autograph=False)()


@pytest.mark.parametrize("label", [-1, 60, 2**31 - 1])
def test_class_out_of_range(label):
    """The message says which class, where, and what is legal."""
    classes = np.zeros([4, 2], np.int32)
    classes[2, 1] = label
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=rf"classes\[5\] = {label} is outside \[0, 60\)",
    ):
        log_prob(PROBLEM.weights, None, classes, PROBLEM.inputs, TREE)


@pytest.mark.parametrize(
    "value", [2.0, np.float64(2.7), tf.constant(2.7), "2", True, 2**70]
)
@pytest.mark.parametrize(
    "name, function",
    [
        ("k", top_k),
        ("beam_width", functools.partial(top_k, k=2)),
        ("num_samples", sample),
        ("seed", functools.partial(sample, num_samples=2)),
        ("top_k", functools.partial(sample, num_samples=2)),
        ("k", tf_hsm.label_tree_top_k),
    ],
)
def test_numbers_must_be_integers(name, function, value):
    """NumPy's floats too, of which TensorFlow would make integers."""
    arguments = PROBLEM.weights, PROBLEM.biases, PROBLEM.inputs, TREE
    with pytest.raises(TypeError, match=f"^{name} must be of the type int64"):
        function(*arguments, **{name: value})


@pytest.mark.parametrize("name", ["temperature", "top_p"])
def test_numbers_must_be_numbers(name):
    arguments = PROBLEM.weights, PROBLEM.biases, PROBLEM.inputs, TREE
    with pytest.raises(TypeError, match=f"^{name} must be of the type float64"):
        sample(*arguments, 2, **{name: "1"})


def test_classes_must_be_integers():
    """Float classes are exact only to 2^24."""
    classes = np.zeros([4, 2], np.float32)
    with pytest.raises(TypeError, match="classes must be integers"):
        log_prob(PROBLEM.weights, None, classes, PROBLEM.inputs, TREE)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"temperature": 0.0}, "temperature = 0 is not a positive finite"),
        ({"temperature": -1.0}, "temperature = -1 "),
        ({"temperature": np.nan}, "temperature = -?nan "),
        ({"temperature": np.inf}, "temperature = inf "),
        ({"temperature": [1.0]}, "temperature must be a scalar"),
        ({"top_p": 0.0}, r"top_p = 0 is outside \(0, 1\]"),
        ({"top_p": -0.1}, "top_p"),
        ({"top_p": 1.5}, "top_p = 1.5 "),
        ({"top_p": np.nan}, "top_p = -?nan "),
        ({"top_k": 61}, r"top_k = 61 is outside \[\d, 60\]"),
        ({"top_k": tf.constant(-1)}, "top_k = -1 is outside"),
        ({"num_samples": -1}, "num_samples = -1 is negative"),
        ({"num_samples": [2]}, "num_samples must be a scalar"),
        ({"seed": [1]}, r"seed must have the shape \[2\]"),
        ({"seed": [1, 2, 3]}, r"seed must have the shape \[2\]"),
        ({"seed": [[1, 2]]}, r"seed must have the shape \[2\]"),
    ],
)
def test_illegal_sampling(options, message):
    options = {"num_samples": 3, "seed": 1, **options}
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        sample(*ARGUMENTS, TREE, **options)


@pytest.mark.parametrize("count", [0, -2])
def test_below_1(count):
    with pytest.raises(ValueError, match=f"top_k = {count} is below 1"):
        sample(*ARGUMENTS, TREE, 3, top_k=count)
    with pytest.raises(ValueError, match=f"beam_width = {count} is below 1"):
        top_k(*ARGUMENTS, TREE, 3, beam_width=count)
