"""Sparse gradients on another device, and of several replicas."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.replicas import CPUS
from tf_hsm import optimizers


def test_slots_on_another_device():
    """Those of an optimizer that a function builds are where it runs."""
    with tf.device(CPUS[1]):
        variable = tf.Variable(tf.ones([4, 3]))
    adagrad = optimizers.Adagrad(0.1)

    @tf.function
    def step(values):
        adagrad.apply([tf.IndexedSlices(values, [0, 2], [4, 3])], [variable])

    step(tf.ones([2, 3]))
    assert (variable.numpy()[[0, 2]] < 1).all()
    np.testing.assert_array_equal(variable.numpy()[[1, 3]], 1)


@pytest.mark.parametrize(
    "make, stock",
    [
        (optimizers.LazyAdam, keras.optimizers.Adam),
        (optimizers.Adagrad, keras.optimizers.Adagrad),
        (optimizers.SGD, keras.optimizers.SGD),
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
