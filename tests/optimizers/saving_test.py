"""Optimizers and their state are saved, loaded and taken up again."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.models import compile_form, make_data, train
from tf_hsm import optimizers

MAKERS = {
    "SGD": lambda: optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "Adagrad": lambda: optimizers.Adagrad(0.1, epsilon=1e-5),
    "RowwiseAdagrad": lambda: optimizers.RowwiseAdagrad(0.1, 0.2),
    "LazyAdam": lambda: optimizers.LazyAdam(
        keras.optimizers.schedules.CosineDecay(0.1, 100),
        beta_1=0.8,
        amsgrad=True,
        weight_decay=0.01,
        clipnorm=1.0,
    ),
    "LossScaleOptimizer": lambda: optimizers.LossScaleOptimizer(
        optimizers.Adagrad(0.1), initial_scale=8.0
    ),
}
every_optimizer = pytest.mark.parametrize("name", MAKERS)

# Two replicas have slices of the same variable, with a row in common.
REPLICAS = """
import keras, numpy as np, tensorflow as tf
from tf_hsm import optimizers

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
values = np.random.default_rng(0).normal(size=[2, 3, 2]).astype(np.float32)
rows = np.array([[1, 4, 1], [4, 0, 2]])
summed = np.zeros([6, 2], np.float32)
np.add.at(summed, rows.ravel(), values.reshape(6, 2))
for make, stock in [
    (optimizers.LazyAdam, keras.optimizers.Adam),
    (optimizers.Adagrad, keras.optimizers.Adagrad),
    (optimizers.SGD, keras.optimizers.SGD),
]:
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
"""


def assert_same_state(one, other):
    """All weights and all variables of the optimizers, bit for bit."""
    for mine, its in zip(
        one.weights + one.optimizer.variables,
        other.weights + other.optimizer.variables,
        strict=True,
    ):
        np.testing.assert_array_equal(mine.numpy(), its.numpy())


@every_optimizer
def test_a_saved_model_trains_on_exactly(name, tmp_path):
    tokens, labels = make_data()
    model = compile_form(optimizer=MAKERS[name]())
    train(model, tokens, labels)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is getattr(optimizers, name)
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert_same_state(loaded, model)
    assert loaded.optimizer.iterations == 6
    train(model, tokens, labels)
    train(loaded, tokens, labels)
    assert_same_state(loaded, model)
    assert loaded.optimizer.iterations == 12


@every_optimizer
def test_a_checkpoint_trains_on_exactly(name, tmp_path):
    tokens, labels = make_data()
    model = compile_form(optimizer=MAKERS[name]())
    train(model, tokens, labels)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(
        tmp_path / "checkpoint"
    )
    other = compile_form(optimizer=MAKERS[name]())
    other.optimizer.build(other.trainable_variables)
    status = tf.train.Checkpoint(
        model=other, optimizer=other.optimizer
    ).restore(path)
    status.assert_existing_objects_matched()
    train(model, tokens, labels)
    train(other, tokens, labels)
    assert_same_state(other, model)


@every_optimizer
def test_a_config_names_the_class_of_this_package(name):
    """Keras has a SGD, an Adagrad and a LossScaleOptimizer of its own."""
    optimizer = MAKERS[name]()
    config = keras.optimizers.serialize(optimizer)
    assert config["registered_name"] == f"tf_hsm>{name}"
    copy = keras.optimizers.get(config)
    assert type(copy) is type(optimizer)
    assert copy.get_config() == optimizer.get_config()


def test_replicas_sum_the_rows_that_they_have_in_common():
    run = subprocess.run(
        [sys.executable, "-c", REPLICAS], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-3000:]
