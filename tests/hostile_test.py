"""Malformed arguments never crash an op: an error names the argument.

The attack runs in a process of its own, which a crash would end.
"""

import collections
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tf_hsm._library import raw_ops
from tf_hsm._tree_tensors import TreeTensors, tree_tensors

CASES = 2500
ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.FailedPreconditionError,
    tf.errors.NotFoundError,
)
LOSS_ARGUMENTS = ("weights", "biases", "labels", "inputs", *TreeTensors._fields)
GRAD_ARGUMENTS = ("loss_grads", "normalizers", "probs")
EXTREMES = [-(2**63), -(2**31), -2, -1, 0, 1, 2**31, 2**40, 2**63 - 1]


def valid_arguments(rng, with_grad):
    """A right set of arguments of a random small problem, as NumPy arrays."""
    tree = [
        tf_hsm.Tree.two_level(30),
        tf_hsm.Tree.balanced(12, 2),
        tf_hsm.Tree.huffman([9, 5, 1, 1, 7, 2]),
        tf_hsm.Tree.two_level(1),
    ][rng.integers(4)]
    batch, width = rng.integers(0, 6), rng.integers(0, 20)

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    arguments = {
        "weights": normal(tree.num_rows, width),
        "biases": normal(tree.num_rows),
        "labels": rng.integers(0, tree.num_classes, size=batch),
        "inputs": normal(batch, width),
        **{k: v.numpy() for k, v in tree_tensors(tree)._asdict().items()},
    }
    if with_grad:
        loss = call("TfHsmLoss", arguments)
        arguments["loss_grads"] = normal(batch)
        arguments["normalizers"] = loss.normalizers.numpy()
        arguments["probs"] = loss.probs.numpy()
    return arguments


def spoil(rng, array):
    """One array with other sizes, another rank, or other values."""
    kind = rng.integers(7)
    if kind == 0:
        return array[..., np.newaxis]
    if kind == 1:
        return array.reshape(-1)[:1].reshape(()) if array.size else array
    if kind == 2:
        return np.repeat(array, 2, axis=rng.integers(max(array.ndim, 1)) - 1)
    if kind == 3:
        return array[: rng.integers(len(array) + 1)]
    if kind == 4:
        return np.zeros([0] * array.ndim, array.dtype)
    array = array.copy()
    if array.size == 0:
        return array
    at = rng.integers(array.size, size=rng.integers(1, 4))
    if array.dtype.kind == "f":
        array.flat[at] = rng.choice([np.nan, np.inf, -np.inf, 3e38, -3e38, 0])
    elif kind == 5:
        array.flat[at] = rng.choice(EXTREMES)
    else:
        array.flat[:] = rng.integers(-2, array.size + 3, size=array.size)
    return array


def call(op, arguments):
    """Calls a raw op; weights and biases as variables for a Resource op."""
    arguments = dict(arguments)
    weights, biases = arguments.pop("weights"), arguments.pop("biases")
    attributes = {} if op.endswith("Grad") else {"Taccumulator": tf.float32}
    held = None
    if op.startswith("Resource"):
        weights, biases = tf.Variable(weights), tf.Variable(biases)
        attributes["T"] = tf.float32
        held = weights, biases
        weights, biases = weights.handle, biases.handle
    name = {
        "TfHsmLoss": "tf_hsm_loss",
        "ResourceTfHsmLoss": "resource_tf_hsm_loss",
        "TfHsmLossGrad": "tf_hsm_loss_grad",
        "ResourceTfHsmLossGrad": "resource_tf_hsm_loss_grad",
    }[op]
    result = getattr(raw_ops, name)(
        weights=weights, biases=[biases], **attributes, **arguments
    )
    del held
    return result


def attack(op, seed):
    """Tries CASES spoiled argument sets; prints a count per outcome."""
    rng = np.random.default_rng(seed)
    outcomes = collections.Counter()
    names = LOSS_ARGUMENTS + (GRAD_ARGUMENTS if op.endswith("Grad") else ())
    for _ in range(CASES):
        arguments = valid_arguments(rng, op.endswith("Grad"))
        spoiled = rng.choice(names, size=rng.integers(1, 4), replace=False)
        for name in spoiled:
            arguments[name] = spoil(rng, arguments[name])
        try:
            call(op, arguments)
            outcomes["accepted"] += 1
        except ERRORS as error:
            named = any(name in error.message for name in names)
            outcomes["named" if named else "unnamed: " + error.message] += 1
    print(json.dumps(outcomes))


@pytest.mark.parametrize(
    "op",
    [
        "TfHsmLoss",
        "ResourceTfHsmLoss",
        "TfHsmLossGrad",
        "ResourceTfHsmLossGrad",
    ],
)
def test_malformed_arguments(op):
    """No crash, no other error than one that names an argument."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.hostile_test", op, "1"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    outcomes = json.loads(run.stdout.splitlines()[-1])
    assert sum(outcomes.values()) == CASES
    assert set(outcomes) <= {"accepted", "named"}, outcomes
    assert outcomes["named"] > CASES / 3


def test_a_handle_of_something_else():
    """A handle that is no variable's, or of one of another type."""
    arguments = valid_arguments(np.random.default_rng(0), False)
    arguments.pop("weights")
    biases = arguments.pop("biases")
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    double = tf.Variable(np.zeros((3, 2)))
    for handle in (table.resource_handle, double.handle):
        with pytest.raises(ERRORS, match="weights"):
            raw_ops.resource_tf_hsm_loss(
                weights=handle,
                biases=[biases],
                T=tf.float32,
                Taccumulator=tf.float32,
                **arguments,
            )


def test_a_width_beyond_all_memory():
    """No rows of any width take no memory, and no product may overflow."""
    arguments = valid_arguments(np.random.default_rng(0), False)
    for name in arguments:
        arguments[name] = arguments[name][:0]
    arguments["group_offsets"] = np.zeros(1, np.int64)
    arguments["weights"] = tf.zeros([0, 2**63 - 1])
    arguments["inputs"] = tf.zeros([0, 2**63 - 1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="weights"):
        call("TfHsmLoss", arguments)


if __name__ == "__main__":
    attack(sys.argv[1], int(sys.argv[2]))
