"""Errors in the first step of `fit` say what else they take from a model."""

import keras
import numpy as np
import pytest

from tests.support.models import WIDTH, make_head, sgd
from tf_hsm import metrics, optimizers


def model_of(head, **compiling):
    model = keras.Sequential([keras.layers.Dense(WIDTH), head])
    model.compile(**{"optimizer": sgd(), "loss": head.loss, **compiling})
    return model


def model_with_precision(head):
    return model_of(head, metrics=[metrics.PrecisionAtK(head, 1000)])


WRONG = {
    "loss": lambda: model_of(make_head(), loss="mse"),
    "metric": lambda: model_of(make_head(), metrics=["accuracy"]),
    "metric_of_ours": lambda: model_with_precision(make_head()),
    "optimizer": lambda: model_of(
        make_head(), optimizer=optimizers.SGD(0.1, use_ema=True)
    ),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("built", [False, True])
def test_what_is_lost(name, built):
    """Variables that are made in the step have no values after it."""
    model = WRONG[name]()
    if built:
        model.build([None, 5])
    with pytest.raises((TypeError, ValueError)) as error:
        model.fit(np.ones([4, 5]), np.arange(4), verbose=0)
    lost = not model.layers[0].kernel.value.is_initialized()
    assert lost != built
    told = str(error.value).count("The model must be made anew too")
    assert told == lost
