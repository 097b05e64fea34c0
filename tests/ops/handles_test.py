"""Variables and numbers that the raw ops are given, one at a time."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle
from tests.support.op_calls import PARAMETERS
from tests.support.random_calls import (
    FROM_STATE,
    INFERENCE,
    ON_CODES,
    RULES,
    STEPS,
    small_call,
)
from tests.support.training import assert_same

# A handle that is no variable's is not found, or is of another type.
ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.FailedPreconditionError,
    tf.errors.NotFoundError,
)
# The ops that read variables; all but one also read scales and codes.
READERS = (*INFERENCE, "loss", "label_tree_loss", "loss_grad")
# What stands in place of a variable, and words of the error.
KINDS = {
    "unset": (lambda array: None, "without a value"),
    "integers": (lambda array: np.zeros(array.shape, np.int32), "must be"),
    "doubles": (lambda array: np.zeros(array.shape), "must be"),
    "a_row_less": (lambda array: array[1:], ""),
    "a_dimension_more": (lambda array: array[..., np.newaxis], ""),
    "no_dimension": (lambda array: np.zeros([], np.float32), ""),
}


@functools.cache
def call_of(op):
    """A call for Adam, with biases if the op takes any, or on codes."""
    mode = "int8" if op in ON_CODES else None
    for seed in itertools.count():
        call = small_call(op, on_variables=True, seed=seed, mode=mode)
        has_variables = all(
            isinstance(value, np.ndarray)
            for name in ("biases", "scales")
            for value in call.arguments.get(name, [])
        )
        has_biases = call.arguments.get("biases", True)
        is_adam = call.attributes.get("rule", "adam") == "adam"
        if is_adam and has_variables and has_biases:
            return call


def places(op):
    """Returns (name, index) of each variable, by the name that errors have."""
    arguments = call_of(op).arguments
    return {
        f"{name}[{i}]" if name.endswith("slots") else name: (name, i)
        for name in PARAMETERS
        for i in range(len(arguments.get(name, [])))
    }


PLACES = [(op, place) for op in STEPS + READERS for place in places(op)]


def check_fails(op, match, put=(), attributes=(), **changes):
    """Asserts an error that starts with a name, and that nothing changed.

    Args:
        op: One of STEPS or READERS.
        match: How the error begins, or several.
        put: Handles, or variables, by the places that they take.
        attributes: Other attributes.
        **changes: Other arguments, each a list.

    Returns:
        The error's message.
    """
    call = call_of(op)
    call = type(call)(
        op,
        True,
        {**call.arguments, **changes},
        {**call.attributes, **dict(attributes)},
    )
    held = call.variables()
    variables = [v for v in tf.nest.flatten(held) if hasattr(v, "assign")]
    before = [v.numpy() for v in variables]
    for place, value in dict(put).items():
        name, at = places(op)[place]
        held[name][at] = value
    for moved in (False, True):
        if op == "loss_step" and "moved" not in changes:
            call.arguments["moved"] = [np.array(moved)]
        with pytest.raises(ERRORS) as caught:
            call.run(held)
        message = caught.value.message.split("}} ")[-1]
        assert message.startswith(match), message
        assert_same([v.numpy() for v in variables], before)
    return message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op, place", PLACES)
def test_a_variable_that_does_not_fit(op, place, kind):
    """Each is named, lists with the index."""
    name, at = places(op)[place]
    make, words = KINDS[kind]
    right = call_of(op).arguments[name][at]
    array = make(right)
    if array is None:
        other = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=right.shape)
    else:
        other = tf.Variable(array)
    # What has the shape of the weights, or of the vectors, is compared to it.
    named = place
    if words == "" and place in ("weights", "vectors"):
        named = (place, "biases", "slots[0]", "vector_slots[0]")
    assert words in check_fails(op, named, {place: other})


@pytest.mark.parametrize("op, place", PLACES)
def test_a_handle_of_something_else(op, place):
    """A table's, or a tensor of two handles, or no handle."""
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    check_fails(op, place, {place: table.resource_handle})
    name, at = places(op)[place]
    variable = tf.Variable(call_of(op).arguments[name][at])
    two = tf.stack([variable.handle] * 2)
    check_fails(op, f"{place} must be one variable", {place: two})
    if place == "biases" and op in STEPS:
        check_fails(op, "biases must be a var", {place: variable.read_value()})


@pytest.mark.parametrize(
    "op, one, other",
    [
        (op, one, other)
        for op in STEPS
        for one, other in itertools.permutations(places(op), 2)
    ],
)
def test_one_variable_twice(op, one, other):
    """Both places are named, whatever else does not fit."""
    name, at = places(op)[other]
    variable = tf.Variable(call_of(op).arguments[name][at])
    message = check_fails(op, "", {one: variable, other: variable})
    assert f"{one} and {other} must be" in message or (
        f"{other} and {one} must be" in message
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("op", STEPS)
def test_another_number_of_slots(op, rule):
    """The slots of another rule, none, or too many are an error."""
    arguments, wanted = call_of(op).arguments, RULES[rule]
    spare = {n: arguments[n] * 2 for n in arguments if n.endswith("slots")}
    # TensorFlow wants as many of vectors as of weights.
    names = spare.keys() - ["vector_slots"]
    for name, number in itertools.product(names, range(5)):
        if number == wanted:
            continue
        given = {n: slots[:wanted] for n, slots in spare.items()}
        given[name] = spare[name][:number]
        if op == "embedding_train_step":
            count = len(given["weight_slots"])
            given["vector_slots"] = spare["vector_slots"][:count]
        match = f"{name} must be {wanted} for "
        message = check_fails(op, match, attributes={"rule": rule}, **given)
        assert f"but are {number}" in message


@pytest.mark.parametrize("op", STEPS[:-1])
def test_no_biases_and_two(op):
    """Without biases there are no slots of them; there are at most one."""
    check_fails(op, "bias_slots must be 0", biases=[])
    two = call_of(op).arguments["biases"] * 2
    check_fails(op, "biases must be at most one", biases=two)


@pytest.mark.parametrize("shape", [[], [1], [6], [3, 1], [0]])
@pytest.mark.parametrize(
    "op, name",
    [
        (op, name)
        for op in STEPS
        for name in ("hyperparameters", "seed", "loss_grads", "moved")
        if name in call_of(op).arguments
    ],
)
def test_other_shapes_of_numbers(op, name, shape):
    """Each is read only if it is as large as it should be; graphs know it."""
    call = call_of(op)
    right = call.arguments[name][0]
    if right.shape == tuple(shape):
        return
    wrong = [np.zeros(shape, right.dtype)]
    check_fails(op, f"{name} must", **{name: wrong})
    if op == "sparse_update" or (op, name) == ("loss_step", "loss_grads"):
        return
    held = call.variables()
    given = {**call.tensors(), name: [tf.constant(wrong[0])]}
    with pytest.raises(ValueError):
        tf.function(lambda: [call.run(held, given)]).get_concrete_function()


@pytest.mark.parametrize("op", FROM_STATE)
def test_states_of_something_else(op):
    """The state of another loss, two states, no state; see `check_states`."""
    (state,) = call_of(op).arguments["state"]
    other = small_call("loss_grad", "binary_12", on_variables=True)
    for wrong in (
        other.arguments["state"][0],
        tf.stack([state] * 2),
        tf.raw_ops.OptionalNone(),
    ):
        check_fails(op, "state must", state=[wrong])


def test_nan_stays_in_the_rows_that_its_example_touches():
    """A NaN input harms the groups on its path, and no others."""
    call, tree = call_of("train_step"), tf_hsm.Tree.two_level(30)
    weights = []
    for value in (0.0, np.nan):
        inputs = call.arguments["inputs"][0].copy()
        inputs[1, 3] += value
        held = call.variables()
        losses = call.run(held, {**call.tensors(), "inputs": [inputs]}).loss
        weights.append(held["weights"][0].numpy())
    assert np.isnan(losses).tolist() == [False, True, False]
    label = call.arguments["labels"][0][1]
    harmed = oracle.touched_rows(tree, [label])
    others = np.setdiff1d(np.arange(tree.num_rows), harmed)
    assert np.isnan(weights[1][harmed]).any(1).all()
    assert_same(weights[1][others], weights[0][others])
