"""Malformed arguments never crash an op: an error names the argument.

And a training step that fails has changed nothing. The attack runs in a process
of its own, which a crash would end.
"""

import collections
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import TreeTensors, tree_tensors

CASES = 2500
ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.FailedPreconditionError,
    tf.errors.NotFoundError,
)
LOSS_ARGUMENTS = ("weights", "biases", "labels", "inputs", *TreeTensors._fields)
GRAD_ARGUMENTS = ("loss_grads", "normalizers", "probs")
STEP_ARGUMENTS = (
    "loss_grads",
    "hyperparameters",
    "seed",
    "weight_slots",
    "bias_slots",
)
EMBEDDING_ARGUMENTS = ("vectors", "indices", "vector_slots")
STEPS = {
    "ResourceTfHsmTrainStep": "resource_tf_hsm_train_step",
    "ResourceTfHsmEmbeddingTrainStep": "resource_tf_hsm_embedding_train_step",
}
# Slots per parameter.
RULES = {"sgd": 0, "adagrad": 1, "rowwise_adagrad": 1, "adam": 2}
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


def valid_step(op, rng):
    """The same of a training step; of variables one list per argument."""
    arguments = valid_arguments(rng, False)
    weights, biases = arguments.pop("weights"), arguments.pop("biases")
    rule = str(rng.choice(list(RULES)))
    slot = np.ones_like(biases if rule == "rowwise_adagrad" else weights)
    variables = {
        "weights": [weights],
        "biases": [biases],
        "weight_slots": [slot] * RULES[rule],
        "bias_slots": [np.ones_like(biases)] * RULES[rule],
    }
    if rng.integers(3) == 0:
        variables["biases"] = variables["bias_slots"] = []
    arguments["loss_grads"] = rng.normal(size=len(arguments["labels"]))
    arguments["loss_grads"] = arguments["loss_grads"].astype(np.float32)
    arguments["hyperparameters"] = np.array([0.1, 0.9, 0.99, 1e-7])
    arguments["seed"] = np.array(rng.integers(2**62))
    if "Embedding" in op:
        batch, width = arguments.pop("inputs").shape
        vectors = rng.normal(size=[5, width]).astype(np.float32)
        slot = np.ones(5 if rule == "rowwise_adagrad" else [5, width])
        variables["vectors"] = [vectors]
        variables["vector_slots"] = [slot.astype(np.float32)] * RULES[rule]
        arguments["indices"] = rng.integers(0, 5, size=batch)
    return rule, variables, arguments


def spoil(rng, array):
    """One array with other sizes, another rank, or other values."""
    if array.ndim == 0:
        return rng.choice([array, array + 1], rng.integers(3))
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


def spoil_handles(rng, handles):
    """Lists of handles by argument, one of them not what it should be.

    And, for the caller to hold, what the handles are of.
    """
    everywhere = [handle for each in handles.values() for handle in each]
    number = [np.zeros((3, 2)), np.zeros((), np.float32), np.int32([1])]
    wrong = tf.Variable(number[rng.integers(3)])
    unset = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[3, 2])
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    name = rng.choice(list(handles))
    others = [
        wrong.handle,
        unset,
        table.resource_handle,
        everywhere[rng.integers(len(everywhere))],
        tf.stack([everywhere[0]] * rng.integers(1, 3)),
    ]
    if name == "biases":
        # Of the other handles TensorFlow itself checks that they are some.
        others.append(tf.constant([1.0]))
    other = others[rng.integers(len(others))]
    spoiled = list(handles[name])
    at = rng.integers(len(spoiled) + 1)
    # In the place of one, or one too many, or one too few.
    spoiled[at : at + rng.integers(2)] = [other][: rng.integers(1, 4)]
    if rng.integers(4) == 0 and name not in ("weights", "vectors"):
        spoiled = handles[name][1:]
    return {**handles, name: spoiled}, (wrong, table)


def call_step(op, rng, rule, variables, arguments, spoils_handles):
    """Calls the step; raises AssertionError if it fails and yet has written."""
    variables = {k: list(map(tf.Variable, v)) for k, v in variables.items()}
    handles = {k: [v.handle for v in vs] for k, vs in variables.items()}
    held = None
    if spoils_handles:
        handles, held = spoil_handles(rng, handles)
    flat = tf.nest.flatten(variables)
    before = [v.numpy().tobytes() for v in flat]
    # Each of these is one handle, not a list.
    single = {
        k: handles.pop(k)[0] for k in ("weights", "vectors") if k in handles
    }
    try:
        getattr(raw_ops, STEPS[op])(
            **single,
            T=tf.float32,
            rule=rule,
            stochastic_rounding=bool(rng.integers(2)),
            **handles,
            **arguments,
        )
    except Exception:
        assert [v.numpy().tobytes() for v in flat] == before, "written"
        raise
    del held


def call_spoiled(op, rng, names):
    """Calls an op with one to three arguments spoiled."""
    if op in STEPS:
        rule, variables, arguments = valid_step(op, rng)
        spoiled = rng.choice(names, size=rng.integers(1, 4), replace=False)
        for name in spoiled:
            if name in arguments:
                arguments[name] = spoil(rng, arguments[name])
            elif variables[name]:
                at = rng.integers(len(variables[name]))
                variables[name] = list(variables[name])
                variables[name][at] = spoil(rng, variables[name][at])
        call_step(op, rng, rule, variables, arguments, rng.integers(3) == 0)
        return
    arguments = valid_arguments(rng, op.endswith("Grad"))
    for name in rng.choice(names, size=rng.integers(1, 4), replace=False):
        arguments[name] = spoil(rng, arguments[name])
    call(op, arguments)


def attack(op, seed):
    """Tries CASES spoiled argument sets; prints a count per outcome."""
    rng = np.random.default_rng(seed)
    outcomes = collections.Counter()
    names = LOSS_ARGUMENTS
    if op.endswith("Grad"):
        names += GRAD_ARGUMENTS
    elif op in STEPS:
        names += STEP_ARGUMENTS
    if "Embedding" in op:
        names = [name for name in names if name != "inputs"]
        names += EMBEDDING_ARGUMENTS
    for _ in range(CASES):
        try:
            call_spoiled(op, rng, names)
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
        *STEPS,
    ],
)
def test_malformed_arguments(op):
    """No crash, no other error than one that names an argument."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.ops.hostile_test", op, "1"],
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
