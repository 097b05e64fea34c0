"""Optimizers and their state are saved, loaded and taken up again."""

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
    "RMSprop": lambda: optimizers.RMSprop(
        0.1, rho=0.8, momentum=0.7, centered=True, epsilon=1e-5
    ),
    "Lion": lambda: optimizers.Lion(
        0.1, beta_1=0.8, beta_2=0.9, weight_decay=0.01
    ),
    "LossScaleOptimizer": lambda: optimizers.LossScaleOptimizer(
        optimizers.Adagrad(0.1), initial_scale=8.0
    ),
}
every_optimizer = pytest.mark.parametrize("name", MAKERS)


def assert_same_state(one, other):
    """All weights and all variables of the optimizers, bit for bit."""
    for mine, its in zip(
        one.weights + one.optimizer.variables,
        other.weights + other.optimizer.variables,
        strict=True,
    ):
        np.testing.assert_array_equal(mine.numpy(), its.numpy())


@every_optimizer
def test_files_and_checkpoints_train_on_exactly(name, tmp_path):
    tokens, labels = make_data()
    is_traced = name in ("RowwiseAdagrad", "LossScaleOptimizer")
    options = {"compiling": {"run_eagerly": not is_traced}}
    model = compile_form(optimizer=MAKERS[name](), **options)
    train(model, tokens, labels, epochs=1)
    model.save(tmp_path / "model.keras")
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(
        tmp_path / "checkpoint"
    )
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is getattr(optimizers, name)
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    restored = compile_form(optimizer=MAKERS[name](), **options)
    restored.optimizer.build(restored.trainable_variables)
    status = tf.train.Checkpoint(
        model=restored, optimizer=restored.optimizer
    ).restore(path)
    status.assert_existing_objects_matched()
    for copy in (loaded, restored):
        assert_same_state(copy, model)
        assert copy.optimizer.iterations == 3
    for one in (model, loaded, restored):
        train(one, tokens, labels, epochs=1)
    for copy in (loaded, restored):
        assert_same_state(copy, model)
        assert copy.optimizer.iterations == 6


@every_optimizer
def test_a_config_names_the_class_of_this_package(name):
    """Keras has a SGD, an Adagrad and a LossScaleOptimizer of its own."""
    optimizer = MAKERS[name]()
    config = keras.optimizers.serialize(optimizer)
    assert config["registered_name"] == f"tf_hsm>{name}"
    copy = keras.optimizers.get(config)
    assert type(copy) is type(optimizer)
    assert copy.get_config() == optimizer.get_config()
