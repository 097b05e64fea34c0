"""Malformed arguments of the ops that use a trained tree, and of the functions.

As in hostile_test, the attack runs in a process of its own, which a crash would
end: no crash, no error but one that names an argument, no class that is none.
"""

import collections
import functools
import itertools
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle
from tf_hsm import hierarchical_softmax_log_prob as log_prob
from tf_hsm import hierarchical_softmax_log_probs as log_probs
from tf_hsm import hierarchical_softmax_sample as sample
from tf_hsm import hierarchical_softmax_top_k as top_k
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import child_tensors, tree_tensors

CASES = 1000
ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.FailedPreconditionError,
    tf.errors.NotFoundError,
)
# Huge ones are beyond all memory: smaller ones would take it, and hours.
INTEGERS = [-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 30, 2**62, 2**63 - 1]
FLOATS = [np.nan, np.inf, -np.inf, 3e38, -3e38, 0, 1, -1, 1e-300]
OPS = [
    "tf_hsm_log_probs",
    "tf_hsm_log_probs_grad",
    "tf_hsm_top_k",
    "tf_hsm_sample",
    "tf_hsm_class_log_probs",
]
TREES = [
    tf_hsm.Tree.two_level(30),
    tf_hsm.Tree.balanced(12, 2),
    tf_hsm.Tree.huffman([9, 5, 1, 1, 7, 2]),
    tf_hsm.Tree.two_level(1),
]


def valid_arguments(rng, op):
    """A right set of arguments of a random small problem, and attributes."""
    tree = TREES[rng.integers(len(TREES))]
    batch, width = rng.integers(0, 6), rng.integers(0, 20)

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    def up_to(most):
        return np.array(rng.integers(1, most + 1))

    arguments = {
        "weights": normal(tree.num_rows, width),
        "biases": normal(tree.num_rows),
        "inputs": normal(batch, width),
        **child_tensors(tree)._asdict(),
    }
    attributes = {}
    if "log_probs" in op and "class" not in op:
        attributes["of_nodes"] = bool(rng.integers(2))
    if op.endswith("grad"):
        size = [tree.num_classes, tree.num_rows][attributes["of_nodes"]]
        arguments["log_probs"] = normal(batch, size)
        arguments["group_log_probs"] = normal(batch, tree.num_groups)
        arguments["grads"] = normal(batch, size)
    elif op.endswith("top_k"):
        arguments["k"] = up_to(tree.num_classes)
        arguments["beam_width"] = up_to(4) - 1
    elif op.endswith("sample"):
        arguments["num_samples"] = up_to(5) - 1
        arguments["seed"] = rng.integers(2**62, size=2)
        arguments["temperature"] = np.array(rng.random() + 0.1)
        arguments["top_k"] = up_to(tree.num_classes) * rng.integers(2)
        arguments["top_p"] = np.array(rng.choice([1.0, 0.5, 1e-9]))
    elif op.endswith("class_log_probs"):
        arrays = tree_tensors(tree)
        for name in ("group_parents", "class_rows", "row_groups"):
            arguments[name] = getattr(arrays, name)
        count = rng.integers(4)
        arguments["classes"] = rng.integers(
            tree.num_classes, size=(batch, count), dtype=np.int32
        )
    return {k: np.array(v) for k, v in arguments.items()}, attributes


def spoil(rng, array):
    """One array with other sizes, another rank, or other values."""
    is_float = array.dtype.kind == "f"
    extremes = np.array(FLOATS if is_float else INTEGERS)
    if array.dtype == np.int32:
        extremes = np.clip(extremes, -(2**31), 2**31 - 1)
    if array.ndim == 0 and rng.integers(3):
        return rng.choice(extremes).astype(array.dtype)
    kind = rng.integers(8)
    if kind == 0 or array.ndim == 0:
        return np.repeat(array[..., np.newaxis], rng.integers(3), -1)
    if kind == 1:
        return array.reshape(-1)[:1].reshape(()) if array.size else array
    if kind == 2:
        return np.repeat(array, 2, axis=rng.integers(array.ndim))
    if kind == 3:
        return array[: rng.integers(len(array) + 1)]
    if kind == 4:
        return np.zeros([0] * array.ndim, array.dtype)
    array = array.copy()
    if array.size == 0:
        return array
    if kind == 5:
        at = rng.integers(array.size, size=rng.integers(1, 4))
        array.flat[at] = rng.choice(extremes)
    elif kind == 6 or is_float:
        # Of a tree, an array of the right values in the wrong order.
        array.flat[:] = rng.choice(array.ravel(), size=array.size)
    else:
        values = rng.integers(-array.size, array.size + 3, size=array.size)
        array.flat[:] = values
    return array


@functools.cache
def variable_of_any_shape(number):
    return tf.Variable(np.float32(0), shape=tf.TensorShape(None))


def call(op, arguments, attributes, on_variable):
    """Calls a raw op, with weights and biases in variables or not."""
    arguments = {**arguments}
    parameters = [arguments.pop(name) for name in ("weights", "biases")]
    if not op.endswith("grad"):
        attributes = {**attributes, "Taccumulator": tf.float32}
    if on_variable:
        variables = [variable_of_any_shape(i) for i in range(2)]
        for variable, value in zip(variables, parameters, strict=True):
            variable.assign(value)
        parameters = [variable.handle for variable in variables]
        attributes = {**attributes, "T": tf.float32}
        op = f"resource_{op}"
    return getattr(raw_ops, op)(
        weights=parameters[0],
        biases=parameters[1:],
        **arguments,
        **attributes,
    )


def outcome(op, arguments, attributes, on_variable):
    """What comes of a call, in a word, or the message of a bad error."""
    try:
        result = call(op, arguments, attributes, on_variable)
    except tf.errors.ResourceExhaustedError:
        return "no memory"
    except ERRORS as error:
        message = error.message.split("}} ")[-1]
        named = any(re.search(rf"\b{name}\b", message) for name in arguments)
        return "named" if named else f"unnamed: {message}"
    is_sample = op.endswith("sample")
    classes = result if is_sample else getattr(result, "classes", None)
    # NumPy has no arrays of no examples and 2^62 samples.
    if classes is not None and classes.shape.num_elements() > 0:
        num_groups = len(arguments["group_offsets"]) - 1
        num_classes = len(arguments["weights"]) - num_groups + 1
        lowest, highest = np.min(classes), np.max(classes)
        if lowest < -is_sample or highest >= num_classes:
            return f"no classes: {classes}"
    return "accepted"


def attack(seed):
    """Tries CASES spoiled argument sets for each op; prints the outcomes."""
    rng = np.random.default_rng(seed)
    for op, on_variable in itertools.product(OPS, [False, True]):
        print(op, on_variable, file=sys.stderr, flush=True)
        outcomes = collections.Counter()
        for _ in range(CASES):
            arguments, attributes = valid_arguments(rng, op)
            count = rng.choice([1, 1, 2, 3])
            for name in rng.choice(list(arguments), size=count, replace=False):
                arguments[name] = spoil(rng, arguments[name])
            outcomes[outcome(op, arguments, attributes, on_variable)] += 1
        print(json.dumps(outcomes), flush=True)


def test_malformed_arguments():
    """No crash, no other error than one that names an argument."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.ops.hostile_inference_test", "1"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    results = list(map(json.loads, run.stdout.splitlines()))
    assert len(results) == 2 * len(OPS)
    for outcomes in results:
        assert sum(outcomes.values()) == CASES
        assert set(outcomes) <= {"accepted", "named", "no memory"}
        assert outcomes["named"] > CASES / 3 and outcomes["accepted"] > 0


@pytest.mark.parametrize("op", OPS)
def test_a_handle_of_something_else(op):
    """A handle that is no variable's, or of one of another type."""
    arguments, attributes = valid_arguments(np.random.default_rng(0), op)
    arguments.pop("weights")
    biases = arguments.pop("biases")
    if not op.endswith("grad"):
        attributes["Taccumulator"] = tf.float32
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    double = tf.Variable(np.zeros((3, 2)))
    unset = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[3, 2])
    for handle in (table.resource_handle, double.handle, unset):
        with pytest.raises(ERRORS, match="weights"):
            getattr(raw_ops, f"resource_{op}")(
                weights=handle,
                biases=[biases],
                T=tf.float32,
                **arguments,
                **attributes,
            )


@pytest.mark.parametrize("op", OPS)
def test_a_width_beyond_all_memory(op):
    """No rows of any width take no memory, and no product may overflow."""
    arguments, attributes = valid_arguments(np.random.default_rng(0), op)
    arguments["group_offsets"] = np.zeros(2, np.int64)
    arguments["weights"] = tf.zeros([0, 2**63 - 1])
    arguments["inputs"] = tf.zeros([0, 2**63 - 1])
    arguments["biases"] = np.zeros(0, np.float32)
    arguments["row_below"] = np.zeros(0, np.int64)
    with pytest.raises(tf.errors.InvalidArgumentError, match="weights"):
        call(op, arguments, attributes, False)


@pytest.mark.parametrize("op", ["tf_hsm_top_k", "tf_hsm_sample"])
def test_a_group_below_two_rows(op):
    """No tree: a search of one would meet the last group 2^11 times."""
    groups = 12
    below = np.repeat(np.arange(1, groups + 1), 2)
    below[-2:] = -1, -2
    arguments = {
        "weights": np.zeros([2 * groups, 1], np.float32),
        "biases": np.zeros(2 * groups, np.float32),
        "inputs": np.zeros([1, 1], np.float32),
        "group_offsets": np.arange(0, 2 * groups + 1, 2),
        "row_below": below,
    }
    if op.endswith("top_k"):
        arguments.update(k=np.array(5), beam_width=np.array(0))
    else:
        arguments.update(
            num_samples=np.array(1),
            seed=np.zeros(2, np.int64),
            temperature=np.array(1.0),
            top_k=np.array(0),
            top_p=np.array(0.9),
        )
    with pytest.raises(tf.errors.InvalidArgumentError, match="row_below"):
        call(op, arguments, {}, False)


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


if __name__ == "__main__":
    attack(int(sys.argv[1]))
