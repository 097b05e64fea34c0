"""Sparse gradients on another device, and of several replicas."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.replicas import CPUS
from tf_hsm import optimizers
from tf_hsm.optimizers import _unique_slices


def test_slots_on_another_device():
    """An optimizer built in a function has its slots where the function runs.

    Two steps on a variable of another device still follow the rule.
    """
    with tf.device(CPUS[1]):
        variable = tf.Variable(tf.ones([4, 3]))
    rate, start, epsilon = 0.1, 0.3, 0.01
    adagrad = optimizers.Adagrad(rate, start, epsilon)
    rows = [0, 2]

    @tf.function
    def step(values):
        adagrad.apply([tf.IndexedSlices(values, rows, [4, 3])], [variable])

    weights, accumulator = np.ones([4, 3]), np.full([4, 3], start)
    for seed in range(2):
        values = np.random.default_rng(seed).normal(size=[2, 3])
        step(values.astype(np.float32))
        accumulator[rows] += values**2
        root = np.sqrt(accumulator[rows] + epsilon)
        weights[rows] -= rate * values / root
    (slot,) = adagrad.slots(variable)
    assert variable.device.endswith(CPUS[1])
    assert slot.value.device.endswith(CPUS[0])
    # Two float32 steps round each number about ten times.
    np.testing.assert_allclose(variable, weights, rtol=1e-6)
    np.testing.assert_allclose(slot, accumulator, rtol=1e-6)
    np.testing.assert_array_equal(variable.numpy()[[1, 3]], 1)
    np.testing.assert_array_equal(slot.numpy()[[1, 3]], np.float32(start))


@pytest.mark.parametrize(
    "make, stock",
    [
        (optimizers.LazyAdam, keras.optimizers.Adam),
        (
            functools.partial(
                optimizers.Adagrad, initial_accumulator_value=0.1
            ),
            keras.optimizers.Adagrad,
        ),
        (optimizers.SGD, keras.optimizers.SGD),
        (optimizers.RMSprop, keras.optimizers.RMSprop),
        (optimizers.Lion, keras.optimizers.Lion),
    ],
)
def test_replicas_sum_the_rows_that_they_have_in_common(make, stock):
    strategy = tf.distribute.MirroredStrategy(CPUS)
    values = np.random.default_rng(0).normal(size=[2, 3, 2]).astype(np.float32)
    rows = np.array([[1, 4, 1], [4, 0, 2]])
    summed = np.zeros([6, 2], np.float32)
    np.add.at(summed, rows.ravel(), values.reshape(6, 2))
    with strategy.scope():
        variable = keras.Variable(np.ones([6, 2]))
        optimizer = make(0.1, weight_decay=0.01)
        optimizer.build([variable])

    def step():
        i = tf.distribute.get_replica_context().replica_id_in_sync_group
        gradient = tf.IndexedSlices(
            tf.gather(values, i), tf.gather(rows, i), tf.constant([6, 2])
        )
        optimizer.apply([gradient], [variable])

    run = tf.function(lambda: strategy.run(step))
    single = keras.Variable(np.ones([6, 2]))
    reference = stock(0.1, weight_decay=0.01)
    for _ in range(3):
        run()
        reference.apply([tf.constant(summed)], [single])
    for value in strategy.experimental_local_results(variable.value):
        touched = np.unique(rows)
        np.testing.assert_allclose(
            value.numpy()[touched], single.numpy()[touched], rtol=1e-5
        )
        np.testing.assert_array_equal(value.numpy()[[3, 5]], 1)


@pytest.mark.parametrize("sums_all_rows", [True, False])
def test_sums_over_replicas(sums_all_rows):
    """As one step with the sums, on the touched rows alone.

    A replica without a row has a stand-in, zeros with a minus.
    """
    strategy = tf.distribute.MirroredStrategy(
        CPUS, tf.distribute.ReductionToOneDevice()
    )
    values = np.random.default_rng(0).normal(size=[2, 3]).astype(np.float32)
    values = [values, np.full([1, 3], -0.0, np.float32)]
    rows = [np.array([1, 4]), np.array([0])]

    def built():
        variables = [
            keras.Variable(np.ones(shape, np.float32))
            for shape in ([6, 2], [6])
        ]
        optimizer = optimizers.LazyAdam(0.1, weight_decay=0.01)
        optimizer.build(variables)
        return variables, optimizer

    def slices(values, rows):
        return [
            tf.IndexedSlices(values[:, :2], rows, tf.constant([6, 2])),
            tf.IndexedSlices(values[:, 2], rows, tf.constant([6])),
        ]

    with strategy.scope():
        variables, optimizer = built()

    def step():
        replica = tf.distribute.get_replica_context()
        i = int(tf.get_static_value(replica.replica_id_in_sync_group))
        sums = _unique_slices.sum_over_replicas(
            replica, slices(values[i], rows[i]), sums_all_rows, [None, None]
        )
        optimizer.apply(sums, variables)

    run = tf.function(lambda: strategy.run(step))
    single, reference = built()
    for _ in range(3):
        run()
        reference.apply(slices(values[0], rows[0]), single)
    for variable, wanted in zip(variables, single, strict=True):
        for value in strategy.experimental_local_results(variable.value):
            np.testing.assert_allclose(value, wanted, rtol=1e-6)
            np.testing.assert_array_equal(value.numpy()[[0, 2, 3, 5]], 1)
