"""Optimizers of heads that follow the rate of the model's optimizer."""

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.clustered_classes import (
    TREES,
    WIDTH,
    make_data,
    make_model,
)
from tf_hsm import layers
from tf_hsm.callbacks import FollowLearningRate


@pytest.mark.parametrize("eager", [False, True])
def test_rates_that_follow(eager, tmp_path):
    """Each step in place has the model's rate times a factor; after loading."""
    x, y = make_data()
    x, y = x[:40], y[:40]

    def rate(epoch, _):
        return 0.1 / (1 + epoch)

    def run(model, rates, callbacks):
        head = model.layers[-1]
        for epoch, own in enumerate(rates or [None, None]):
            if own is not None:
                head.optimizer.learning_rate = own
            model.fit(
                x,
                y,
                batch_size=20,
                shuffle=False,
                verbose=0,
                initial_epoch=epoch,
                epochs=epoch + 1,
                callbacks=[
                    keras.callbacks.LearningRateScheduler(rate),
                    *callbacks,
                ],
            )
        return model.get_weights()

    def make():
        keras.utils.set_random_seed(0)
        model = make_model(own=True)
        model.compile("sgd", model.layers[-1].loss, run_eagerly=eager)
        return model

    follow = tf_hsm.callbacks.FollowLearningRate(3.0)
    model = make()
    found = run(model, None, [follow])
    wanted = run(make(), [0.3, 0.15], [])
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    loaded.fit(x, y, verbose=0, callbacks=[FollowLearningRate(2.0)])
    np.testing.assert_allclose(loaded.layers[-1].optimizer.learning_rate, 0.1)


def test_rates_that_cannot_follow():
    x, y = make_data()
    with pytest.raises(ValueError, match=r"factor is 0.*must be above 0"):
        FollowLearningRate(0.0)
    model = make_model(own=False)
    with pytest.raises(ValueError, match="a head with an optimizer of its own"):
        model.fit(x, y, verbose=0, callbacks=[FollowLearningRate()])
    variable = keras.Variable(0.1)
    for rate in (
        keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9),
        lambda: variable,
    ):
        head = layers.HierarchicalSoftmax(
            TREES["balanced"](), optimizer=tf_hsm.optimizers.SGD(rate)
        )
        model = keras.Sequential([keras.Input([WIDTH]), head])
        model.compile("sgd", head.loss)
        with pytest.raises(ValueError, match="has a schedule"):
            model.fit(
                np.zeros([4, WIDTH]),
                y[:4],
                verbose=0,
                callbacks=[FollowLearningRate()],
            )
