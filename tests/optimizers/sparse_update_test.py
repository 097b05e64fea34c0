"""The op that updates rows in place, and when the optimizers take it."""

import concurrent.futures
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.update_rules import OURS, check_steps
from tf_hsm.optimizers import _sparse_update
from tf_hsm.runtime import library
from tf_hsm.runtime.library import raw_ops

OP = "ResourceTfHsmSparseUpdate"
# The rules whose step on rows is one op.
MAKE = {
    rule: make
    for rule, make in OURS.items()
    if rule in library.allowed_values(OP, "rule")
}
every_rule = pytest.mark.parametrize("rule", MAKE)


def draw(rows, count, width, seed=0):
    """A table, and a gradient whose rows repeat often."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(rows, width)).astype(np.float32)
    indices = (rows * rng.random(count) ** 3).astype(np.int64)
    return table, indices, rng.normal(size=(count, width)).astype(np.float32)


def op_types(function, *args):
    """The types of all ops of a function's graph, those it calls included."""
    definition = (
        tf.function(function)
        .get_concrete_function(*args)
        .graph.as_graph_def(add_shapes=False)
    )
    nodes = list(definition.node)
    for inner in definition.library.function:
        nodes += inner.node_def
    return {node.op for node in nodes}


SIZES = [(7, 3000, 33), (70_001, 5000, 40), (3000, 3000, 300), (1, 1, 1)]


@pytest.mark.parametrize(
    "rule, rows, count, width",
    # The sort and the division of work are the same for all rules.
    [(rule, *SIZES[0]) for rule in MAKE]
    + [(rule, *SIZES[1 + i % 3]) for i, rule in enumerate(MAKE)],
)
def test_many_rows(rule, rows, count, width):
    """More than one digit of the sort, and more than one work item."""
    table, indices, values = draw(rows, count, width)
    decay = 0.25 if count == 5000 else None
    check_steps(
        rule,
        table,
        [(indices, np.float32(scale) * values) for scale in (1, 0.5)],
        optimizer=MAKE[rule](weight_decay=decay),
        tolerance=2e-5,
        of_slots=1e-4,
    )


def test_repeated_rows_are_summed_in_their_order():
    """Bit for bit, wherever other rows lie between them."""
    _, indices, values = draw(50, 20_000, 21)
    variable = tf.Variable(tf.zeros([50, 21]))
    step(variable, indices, values)
    want = np.zeros([50, 21], np.float32)
    for row, value in zip(indices, values, strict=True):
        want[row] += value
    np.testing.assert_array_equal(variable, -want)


def test_a_tensor_read_before_keeps_its_values():
    """Though the variable shares its buffer with it, which is updated."""
    start = tf.random.normal([9, 4])
    variable = tf.Variable(start)
    before = variable.read_value()
    values = before.numpy()
    step(variable, [2, 2], np.ones([2, 4], np.float32))
    np.testing.assert_array_equal(before, values)
    values[2] -= 2
    np.testing.assert_allclose(variable, values, 1e-6)


def test_stochastic_rounding_keeps_the_mean():
    """Steps that rounding to nearest would lose add up."""

    def stepped(is_rounding, seed):
        variable = tf.Variable(tf.ones([2000, 8], tf.bfloat16))
        raw_ops.resource_tf_hsm_sparse_update(
            weights=variable.handle,
            slots=[],
            indices=np.arange(2000),
            values=np.ones([2000, 8], np.float32),
            hyperparameters=[1e-4, 0.0, 0.0, 0.0],
            seed=seed,
            T=tf.bfloat16,
            rule="sgd",
            stochastic_rounding=is_rounding,
        )
        return variable.numpy().astype(np.float32)

    np.testing.assert_array_equal(stepped(False, 1), np.ones([2000, 8]))
    found = stepped(True, 1)
    # A step of 2^-8 has the chance 1e-4 * 2^8; below 1, numbers are 2^-8 apart.
    chance = 1e-4 * 2**8
    spread = 2**-8 * np.sqrt(chance * (1 - chance) / found.size)
    assert abs(found.mean() - (1 - 1e-4)) < 5 * spread
    np.testing.assert_array_equal(found, stepped(True, 1))
    assert (found != stepped(True, 2)).any()


def test_steps_of_several_threads_lose_nothing():
    variable = tf.Variable(tf.zeros([100, 300]))
    ones = np.ones([400, 300], np.float32)
    rows = np.arange(400) % 100
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: step(variable, rows, ones), range(40)))
    np.testing.assert_array_equal(variable, np.full([100, 300], -160.0))


def step(variable, indices, values, rule="sgd", slots=(), hyper=None):
    """A step at a rate of 1."""
    raw_ops.resource_tf_hsm_sparse_update(
        weights=variable.handle,
        slots=[slot.handle for slot in slots],
        indices=indices,
        values=values,
        hyperparameters=[1.0, 0.0, 0.0, 0.0] if hyper is None else hyper,
        seed=0,
        T=variable.dtype,
        rule=rule,
    )


FLAWS = {
    "indices.1. = 4 is outside .0, 4.": {"indices": [0, 4]},
    "indices.0. = -1 is outside .0, 4.": {"indices": [-1, 0]},
    "values must have the shape .2,3., but has .2,1.": {
        "values": np.ones([2, 1], np.float32)
    },
    "Dimensions must be equal|must have the shape": {
        "values": np.ones([3, 3], np.float32)
    },
    "rank 1|indices must have the shape": {"indices": [[0, 1]]},
    "slots must be 1 for adagrad, but are 0": {"rule": "adagrad"},
    "hyperparameters must have the shape": {"hyper": [1.0]},
    "slots.0. must have the shape .4,3., but has .4.": {
        "rule": "adagrad",
        "slots": [tf.Variable(tf.zeros([4]))],
    },
    "slots.0. must have the shape .4., but has .4,3.": {
        "rule": "rowwise_adagrad",
        "slots": [tf.Variable(tf.zeros([4, 3]))],
    },
    "slots.0. must be float, but is double": {
        "rule": "adagrad",
        "slots": [tf.Variable(tf.zeros([4, 3], tf.float64))],
    },
}


@pytest.mark.parametrize("message", FLAWS)
def test_what_does_not_fit_is_an_error_that_changes_nothing(message):
    variable = tf.Variable(tf.ones([4, 3]))
    arguments = {"indices": [0, 1], "values": np.ones([2, 3], np.float32)}
    with pytest.raises(
        (ValueError, tf.errors.InvalidArgumentError), match=message
    ):
        step(variable, **arguments | FLAWS[message])
    np.testing.assert_array_equal(variable, np.ones([4, 3]))


def test_indices_of_no_rows():
    """The variable's shape would overflow if it had rows."""
    variable = tf.Variable(tf.zeros([0, 2**62]))
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(variable, [0, 0, 0, 0], np.ones([4, 1], np.float32))


def test_one_variable_twice_is_an_error():
    variable = tf.Variable(tf.ones([4, 3]))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="must be different variables"
    ):
        step(variable, [0], np.ones([1, 3], np.float32), "adagrad", [variable])


@pytest.mark.parametrize("rule", OURS)
@pytest.mark.parametrize("decay", [None, 0.1])
def test_which_rules_take_it(rule, decay):
    """Rules that take the op need no sum, gather or scatter of rows beside."""
    variable = keras.Variable(np.zeros([9, 3], np.float32))
    optimizer = OURS[rule](weight_decay=decay)
    optimizer.build([variable])
    types = op_types(
        lambda values, rows: optimizer.apply(
            [tf.IndexedSlices(values, rows)], [variable]
        ),
        tf.TensorSpec([None, 3]),
        tf.TensorSpec([None], tf.int64),
    )
    assert (OP in types) == (rule in MAKE)
    if rule in MAKE:
        others = ("Gather", "Scatter", "Unique", "Segment")
        assert not {t for t in types for other in others if other in t}


@pytest.mark.parametrize(
    "device, kernels, width, dtype, expected",
    [
        ("CPU", {"CPU"}, 20_000, tf.float32, True),
        ("GPU", {"CPU"}, 3, tf.float32, False),
        ("GPU", {"CPU", "GPU"}, 10_240, tf.float32, True),
        ("GPU", {"CPU", "GPU"}, 10_241, tf.bfloat16, False),
        ("GPU", {"CPU", "GPU"}, 5_121, tf.float64, False),
    ],
)
def test_devices(monkeypatch, device, kernels, width, dtype, expected):
    """A GPU must have a kernel, and room for the sum of a row."""
    monkeypatch.setattr(_sparse_update, "_devices", lambda: kernels)
    variable = types.SimpleNamespace(
        device=f"/job:localhost/device:{device}:0",
        dtype=dtype,
        shape=tf.TensorShape([7, width]),
    )
    assert _sparse_update.is_possible(variable, [variable]) == expected


@every_rule
def test_xla_does_without(rule):
    """It knows no ops but its own."""
    table, _, values = draw(9, 5, 3)

    def trained(**options):
        variable = keras.Variable(table)
        optimizer = MAKE[rule]()
        optimizer.build([variable])

        @tf.function(**options)
        def apply(values):
            rows = tf.constant([1, 2, 4, 6, 7])
            optimizer.apply([tf.IndexedSlices(values, rows)], [variable])

        apply(tf.constant(values))
        return variable.numpy()

    compiled = trained(jit_compile=True)
    np.testing.assert_allclose(compiled, trained(), 1e-5, 1e-6)
    assert np.abs(compiled - table).max() > 0
