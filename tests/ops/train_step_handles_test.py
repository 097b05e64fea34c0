"""Handles and numbers that the training step's op is given, one at a time."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.training import assert_same, wide_problem
from tf_hsm.runtime.library import raw_ops
from tf_hsm.runtime.tree_tensors import tree_tensors

TREE = tf_hsm.Tree.two_level(60)
PROBLEM = wide_problem(TREE, (12, 16))
# By the names that errors have for them.
PLACES = [
    "weights",
    "biases",
    "weight_slots[0]",
    "weight_slots[1]",
    "bias_slots[0]",
    "bias_slots[1]",
]
KINDS = {
    "unset": (lambda v: None, "without a value"),
    "integers": (lambda v: np.zeros(v.shape, np.int32), "must be float"),
    "doubles": (lambda v: np.zeros(v.shape), "must be float"),
    "a_row_less": (lambda v: v.numpy()[1:], ""),
    "a_dimension_more": (lambda v: v.numpy()[..., None], "shape"),
    "no_dimension": (lambda v: np.zeros([], np.float32), "shape"),
}


def make_variables():
    """The variables of Adam, by their places."""
    w, b = PROBLEM.weights, PROBLEM.biases
    arrays = [w, b, 0 * w, abs(w), 0 * b, abs(b)]
    return {k: tf.Variable(v) for k, v in zip(PLACES, arrays, strict=True)}


def call(variables, handles=None, **changes):
    """Calls the op for Adam, with other handles or arguments."""
    handles = {k: v.handle for k, v in variables.items()} | (handles or {})
    h = [handles[place] for place in PLACES]
    arguments = {
        "weights": h[0],
        "biases": h[1:2],
        "labels": PROBLEM.labels,
        "inputs": PROBLEM.inputs,
        **tree_tensors(TREE)._asdict(),
        "loss_grads": PROBLEM.upstream,
        "hyperparameters": tf.constant([0.1, 0.9, 0.99, 1e-7], tf.float64),
        "seed": tf.constant(0, tf.int64),
        "weight_slots": h[2:4],
        "bias_slots": h[4:],
        "smoothing_prior": [],
    }
    return raw_ops.resource_tf_hsm_train_step(
        **{
            **arguments,
            "rule": "adam",
            "T": tf.float32,
            **changes,
        }
    )


def check_fails(match, variables, *args, **changes):
    """Asserts an error that starts with a name, and that nothing changed."""
    before = [v.numpy() for v in variables.values()]
    with pytest.raises(
        (
            tf.errors.InvalidArgumentError,
            tf.errors.FailedPreconditionError,
        )
    ) as caught:
        call(variables, *args, **changes)
    message = caught.value.message.split("}} ")[-1]
    assert message.startswith(match), message
    assert_same([v.numpy() for v in variables.values()], before)
    return message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_a_variable_that_does_not_fit(place, kind):
    """Each is named, lists with the index."""
    variables = make_variables()
    make, words = KINDS[kind]
    array = make(variables[place])
    if array is None:
        other = tf.raw_ops.VarHandleOp(
            dtype=tf.float32, shape=variables[place].shape
        )
    else:
        other = tf.Variable(array)
    handle = other if array is None else other.handle
    # With a row less it is the biases that do not fit the weights.
    named = place
    if (place, kind) == ("weights", "a_row_less"):
        named = "biases"
    message = check_fails(named, variables, {place: handle})
    assert words in message


@pytest.mark.parametrize("place", PLACES)
def test_a_handle_of_something_else(place):
    """A table's, or a tensor of two handles."""
    variables = make_variables()
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    check_fails(place, variables, {place: table.resource_handle})
    two = tf.stack([variables[place].handle] * 2)
    check_fails(f"{place} must be one variable", variables, {place: two})


@pytest.mark.parametrize("one, other", itertools.permutations(PLACES, 2))
def test_one_variable_twice(one, other):
    """Both places are named, whatever else does not fit."""
    variables = make_variables()
    message = check_fails("", variables, {one: variables[other].handle})
    assert f"{one} and {other} must be" in message or (
        f"{other} and {one} must be" in message
    )


@pytest.mark.parametrize("rule", ["sgd", "adagrad", "rowwise_adagrad", "adam"])
@pytest.mark.parametrize("name", ["weight_slots", "bias_slots"])
def test_another_number_of_slots(name, rule):
    """The slots of another rule, none, or too many are an error."""
    wanted = {"sgd": 0, "adam": 2}.get(rule, 1)
    variables = make_variables()
    spare = [variables[p].handle for p in PLACES[2:]]
    fitting = {"weight_slots": spare[:wanted], "bias_slots": spare[2:][:wanted]}
    for number in {0, 1, 2, 3} - {wanted}:
        check_fails(
            f"{name} must be {wanted} for this rule, but are {number}",
            variables,
            rule=rule,
            **{**fitting, name: spare[:number]},
        )


def test_slots_of_biases_that_are_none():
    """Without biases there are no slots of them."""
    check_fails("bias_slots must be 0", make_variables(), biases=[])


def test_two_biases_and_biases_that_are_a_tensor():
    """At most one, and a variable."""
    variables = make_variables()
    handles = [variables["biases"].handle, variables["bias_slots[0]"].handle]
    check_fails("biases must be at most one", variables, biases=handles)
    tensor = [tf.constant(PROBLEM.biases)]
    check_fails("biases must be a variable's", variables, biases=tensor)


@pytest.mark.parametrize("shape", [[], [1], [3], [5], [4, 1], [0]])
@pytest.mark.parametrize(
    "name, dtype",
    [
        ("hyperparameters", tf.float64),
        ("seed", tf.int64),
        ("loss_grads", tf.float32),
    ],
)
def test_other_shapes_of_numbers(name, dtype, shape):
    """Each is read only if it is as large as it should be; graphs know it."""
    if (name, shape) == ("seed", []):
        return
    variables = make_variables()
    given = {name: tf.zeros(shape, dtype)}
    check_fails(f"{name} must", variables, **given)
    with pytest.raises(ValueError):
        tf.function(lambda: call(variables, **given)).get_concrete_function()


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 0.0, 1e300])
def test_any_hyperparameter(value):
    """No number of them crashes; only touched rows can be harmed."""
    for at in range(4):
        variables = make_variables()
        hyperparameters = np.array([0.1, 0.9, 0.99, 1e-7])
        hyperparameters[at] = value
        losses = call(variables, hyperparameters=hyperparameters).loss
        assert np.isfinite(losses).all()


def test_nan_stays_in_the_rows_that_its_example_touches():
    """A NaN input harms the groups on its path, and no others."""
    inputs = PROBLEM.inputs.copy()
    inputs[4, 3] = np.nan
    variables, others = make_variables(), make_variables()
    losses = call(variables, inputs=inputs).loss.numpy()
    call(others)
    assert np.isnan(losses).tolist() == [i == 4 for i in range(12)]
    harmed = np.isnan(variables["weights"].numpy()).any(1)
    siblings = np.zeros(TREE.num_rows, bool)
    for row in TREE.path(PROBLEM.labels[4]):
        group = np.searchsorted(TREE.group_offsets, row, side="right") - 1
        siblings[slice(*TREE.group_offsets[group : group + 2])] = True
    np.testing.assert_array_equal(harmed, siblings)
    assert_same(
        variables["weights"].numpy()[~siblings],
        others["weights"].numpy()[~siblings],
    )
