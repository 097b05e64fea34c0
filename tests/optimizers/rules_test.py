"""The rules: against a reference in float64, and against Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.keras_rules import CASES, NOT_IN_PLACE, make
from tests.support.pairs import all_pairs
from tests.support.update_rules import (
    EPSILON,
    OURS,
    RATE,
    assert_close,
    check_steps,
)
from tf_hsm import optimizers

N, WIDTH, STEPS = 23, 5, 4

every_rule = pytest.mark.parametrize("rule", OURS)


def make_table(shape=(N, WIDTH), seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def slices(rows, values):
    return tf.IndexedSlices(*map(tf.constant, (values, rows, (N, WIDTH))))


def draw(rng, shape=(N, WIDTH), dtype=np.float32):
    """Rows with repetitions, and values that float16 can hold."""
    rows = rng.integers(shape[0] - 2, size=9)
    return rows, rng.normal(size=(9, *shape[1:])).astype("float16").astype(
        dtype
    )


@pytest.mark.parametrize(
    "rule, shape, graph",
    all_pairs(list(OURS), [(N, WIDTH), (N,), (N, 2, 3)], [False, True]),
)
def test_touched_rows_follow_the_rule_and_no_other_moves(rule, shape, graph):
    table, rng = make_table(shape), np.random.default_rng(1)
    gradients = [draw(rng, shape) for _ in range(STEPS)]
    variable, slots, first = check_steps(rule, table, gradients, graph=graph)
    others = np.setdiff1d(np.arange(N), [rows for rows, _ in gradients])
    assert others.size
    for one, before in zip([variable, *slots], [table, *first], strict=True):
        np.testing.assert_array_equal(one.numpy()[others], before[others])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    "rows", [[3], [0, 2, 3], [3, 2, 0], [2, 2, 3], [0, 2, 2], [3, 2, 2]]
)
def test_rows_in_any_order(rows, dtype):
    gradient = np.array(rows, dtype), make_table((len(rows), WIDTH))
    check_steps("adagrad", np.zeros([4, WIDTH], np.float32), [gradient])


@pytest.mark.parametrize("shape", [(N,), ()])
def test_rowwise_adagrad_of_single_numbers_is_adagrad(shape):
    mine, its = (keras.Variable(make_table(shape)) for _ in range(2))
    ours, stock = (
        OURS["rowwise_adagrad"](),
        keras.optimizers.Adagrad(RATE, epsilon=EPSILON),
    )
    for seed in range(STEPS):
        gradient = tf.constant(make_table(shape, seed))
        ours.apply([gradient], [mine])
        stock.apply([gradient], [its])
    np.testing.assert_array_equal(mine.numpy(), its.numpy())
    assert ours.slots(mine)[0].shape == shape


@pytest.mark.parametrize("shape", [(N, WIDTH), (N, 2, 3)])
def test_rowwise_adagrad_of_dense_gradients(shape):
    """The rows of the first axis, whatever the form of the gradient."""
    gradients = [(None, make_table(shape, seed)) for seed in range(STEPS)]
    check_steps("rowwise_adagrad", make_table(shape), gradients)


TOLERANCES = {
    "bfloat16": (1e-5, 2**-8),
    "float16": (1e-5, 2**-10),
    # Keras' learning rate is a float32.
    "float64": (1e-7, 1e-7),
}


@pytest.mark.parametrize(
    "rule, dtype, sparse",
    all_pairs(list(OURS), list(TOLERANCES), [False, True]),
)
def test_dtypes(rule, sparse, dtype):
    """16 bits are computed in float32 and rounded once, when written."""
    of_slots, tolerance = TOLERANCES[dtype]
    store = tf.as_dtype(dtype).as_numpy_dtype
    rng = np.random.default_rng(1)
    gradients = STEPS * [(None, make_table(seed=2).astype(store))]
    if sparse:
        gradients = [draw(rng, dtype=store) for _ in range(STEPS)]
    _, slots, _ = check_steps(
        rule,
        make_table().astype(store),
        gradients,
        tolerance=tolerance,
        of_slots=of_slots,
    )
    for slot in slots:
        assert slot.dtype == ("float64" if dtype == "float64" else "float32")


@pytest.mark.parametrize("amsgrad", [False, True])
def test_rows_have_no_momentum_by_default(amsgrad):
    """As Adam without it; dense gradients have Adam's."""
    options = {"epsilon": EPSILON, "amsgrad": amsgrad}
    ours = optimizers.LazyAdam(RATE, **options)
    stock = keras.optimizers.Adam(RATE, beta_1=0.0, **options)
    mine, its = (keras.Variable(make_table()) for _ in range(2))
    for seed in range(STEPS):
        gradient = make_table(seed=seed)
        ours.apply([slices(np.arange(N), gradient)], [mine])
        stock.apply([tf.constant(gradient)], [its])
    assert_close(mine, its.numpy())


@pytest.mark.parametrize("beta", [-0.1, 1.0, float("nan")])
def test_sparse_momentum_out_of_range(beta):
    with pytest.raises(ValueError, match="sparse_beta_1 is"):
        optimizers.LazyAdam(sparse_beta_1=beta)


def test_config_of_an_earlier_version():
    config = optimizers.LazyAdam(beta_1=0.8).get_config()
    assert optimizers.LazyAdam.from_config(config).sparse_beta_1 == 0
    del config["sparse_beta_1"]
    assert optimizers.LazyAdam.from_config(config).sparse_beta_1 == 0.8


@every_rule
def test_slots_are_those_of_the_variable(rule):
    first, second = keras.Variable(make_table()), keras.Variable(make_table())
    optimizer = OURS[rule]()
    with pytest.raises(ValueError, match="Unknown variable"):
        optimizer.slots(first)
    optimizer.build([first, second])
    slots = optimizer.slots(first)
    assert not {id(s) for s in slots} & {id(s) for s in optimizer.slots(second)}
    for slot, same in zip(slots, optimizer.slots(first.value), strict=True):
        assert slot is same and isinstance(slot, keras.Variable)
    ids = [id(v) for v in optimizer.variables]
    assert all(id(slot) in ids for slot in slots)
    with pytest.raises(ValueError, match="Unknown variable"):
        optimizer.slots(keras.Variable(make_table()))


@every_rule
def test_learning_rate_schedule(rule):
    rates = [RATE, RATE / 8, RATE / 64]
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0, 1], rates)
    config = {**OURS[rule]().get_config(), "learning_rate": schedule}
    optimizer, rng = type(OURS[rule]())(**config), np.random.default_rng(1)
    gradients = [draw(rng) for _ in rates]
    check_steps(
        rule,
        make_table(),
        gradients,
        optimizer=optimizer,
        rates=rates,
        graph=True,
    )


@every_rule
def test_no_rows_change_nothing(rule):
    variable = keras.Variable(make_table())
    for clip in ({}, {"clipnorm": 1.0}, {"global_clipnorm": 1.0}):
        optimizer = OURS[rule](weight_decay=0.1, **clip)
        empty = np.zeros([0, WIDTH], np.float32)
        rows = np.zeros([0], np.int64)
        optimizer.apply([slices(rows, empty)], [variable])
        assert optimizer.iterations == 1
    np.testing.assert_array_equal(variable.numpy(), make_table())


@every_rule
@pytest.mark.parametrize("row", [-1, N])
def test_a_row_out_of_range_is_an_error_that_changes_nothing(rule, row):
    variable = keras.Variable(make_table())
    optimizer = OURS[rule]()
    optimizer.build([variable])
    before = [v.numpy() for v in optimizer.variables]
    values = np.ones([2, WIDTH], np.float32)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"is (not in|outside)"
    ):
        optimizer.apply([slices([1, row], values)], [variable])
    np.testing.assert_array_equal(variable.numpy(), make_table())
    for variable, value in zip(optimizer.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


@every_rule
def test_a_gradient_of_another_width_is_an_error(rule):
    """It would be broadcast."""
    variable = keras.Variable(make_table())
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        OURS[rule]().apply(
            [slices([1, 2], np.ones([2, 1], np.float32))],
            [variable],
        )
    np.testing.assert_array_equal(variable.numpy(), make_table())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name, stock_name, options", [*CASES, *NOT_IN_PLACE])
def test_all_rows_to_twelve_digits(name, stock_name, options, sparse):
    """Weights and slots; the bias is excluded from the weight decay."""
    ours, stock = make(name, stock_name, options)
    rng = np.random.default_rng(3)
    starts = {"table": rng.normal(size=(N, WIDTH)), "bias": rng.normal(size=N)}
    variables = [
        [
            keras.Variable(start, dtype="float64", name=name)
            for name, start in starts.items()
        ]
        for _ in range(2)
    ]
    for optimizer in (ours, stock):
        optimizer.exclude_from_weight_decay(var_names=["bias"])
    for _ in range(STEPS):
        dense = [rng.normal(size=start.shape) for start in starts.values()]
        rows = rng.permutation(N)
        gradients = list(map(tf.constant, dense))
        stock.apply(gradients, variables[1])
        if sparse:
            gradients = [
                tf.IndexedSlices(g[rows], rows, g.shape) for g in dense
            ]
        ours.apply(gradients, variables[0])
    for mine, its in zip(
        variables[0] + ours.variables,
        variables[1] + stock.variables,
        strict=True,
    ):
        np.testing.assert_allclose(mine, its, 1e-12, 1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_constant_gradient_has_no_negative_variance(momentum, sparse):
    """A difference of two large float32 is negative, and its root NaN."""
    values = np.linspace(900, 1100, N * WIDTH, dtype=np.float32)
    values = values.reshape(N, WIDTH)
    gradient = tf.constant(values)
    if sparse:
        gradient = slices(np.arange(N), values)
    results = []
    for whose in (optimizers, keras.optimizers):
        variable = keras.Variable(np.zeros([N, WIDTH], np.float32))
        rmsprop = whose.RMSprop(centered=True, momentum=momentum)
        rmsprop.build([variable])
        apply = tf.function(lambda r=rmsprop: r.apply([gradient]))
        for _ in range(300):
            apply()
        results.append(np.isfinite(variable.numpy()))
    assert results[0].all()
    assert not results[1].all()  # The case is one.
