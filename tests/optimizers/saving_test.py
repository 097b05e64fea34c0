"""Optimizers and their state are saved, loaded and taken up again."""

import keras
import pytest
import tensorflow as tf

from tests.support.models import compile_form, make_data, train
from tests.support.training import assert_same
from tests.support.update_rules import OURS
from tf_hsm import optimizers

MAKERS = {
    **{
        rule: OURS[rule]
        for rule in ("nesterov", "adagrad", "rowwise_adagrad", "lion")
    },
    "rmsprop": OURS["rmsprop_centered_momentum"],
    "adam": lambda: optimizers.LazyAdam(
        keras.optimizers.schedules.CosineDecay(0.1, 100),
        beta_1=0.8,
        amsgrad=True,
        weight_decay=0.01,
        clipnorm=1.0,
    ),
    "scaled": lambda: optimizers.LossScaleOptimizer(
        optimizers.Adagrad(0.1), initial_scale=8.0
    ),
}


def assert_same_state(one, other):
    """All weights and all variables of the optimizers, bit for bit."""
    assert_same(*(m.weights + m.optimizer.variables for m in (one, other)))


@pytest.mark.parametrize("name", MAKERS)
def test_files_and_checkpoints_train_on_exactly(name, tmp_path):
    tokens, labels = make_data()
    is_traced = name in ("rowwise_adagrad", "scaled")
    options = {"compiling": {"run_eagerly": not is_traced}}
    model = compile_form(optimizer=MAKERS[name](), **options)
    train(model, tokens, labels, epochs=1)
    model.save(tmp_path / "model.keras")
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(
        tmp_path / "checkpoint"
    )
    loaded = keras.models.load_model(tmp_path / "model.keras")
    # Keras has a SGD, an Adagrad and a LossScaleOptimizer of its own.
    kind = type(model.optimizer)
    config = keras.optimizers.serialize(model.optimizer)
    assert config["registered_name"] == f"tf_hsm>{kind.__name__}"
    assert type(loaded.optimizer) is kind
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
