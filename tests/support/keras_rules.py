"""Optimizers of this package beside the ones of Keras that they equal."""

import keras

from tests.support.pairs import all_pairs
from tf_hsm import optimizers

RMSPROP = [
    {"rho": rho, "momentum": momentum, "centered": centered, "epsilon": epsilon}
    for (rho, epsilon), momentum, centered in all_pairs(
        [(0.75, 0.01), (0.9, 1e-7)], [0.5, 0.0], [True, False]
    )
]
# Keras rounds these of Adam and Lion, and the weight decay, to float32.
BETAS = {"beta_1": 0.75, "beta_2": 0.875}
DECAY = {"weight_decay": 0.25}
# The names of the classes here and in Keras, and their options.
CASES = [
    *(("RMSprop", "RMSprop", options) for options in RMSPROP),
    ("RMSprop", "RMSprop", RMSPROP[0] | DECAY),
    ("Lion", "Lion", BETAS),
    ("Lion", "Lion", BETAS | DECAY),
    ("LazyAdam", "Adam", BETAS),
    ("LazyAdam", "AdamW", BETAS | {"weight_decay": 2**-8}),
    ("LazyAdam", "AdamW", {**BETAS, "epsilon": 0.01, **DECAY}),
    ("SGD", "SGD", DECAY),
    ("Adagrad", "Adagrad", {"initial_accumulator_value": 0.1, **DECAY}),
]
# Those that a step in place refuses.
NOT_IN_PLACE = [
    ("LazyAdam", "Adam", BETAS | {"amsgrad": True}),
    ("SGD", "SGD", {"momentum": 0.875}),
    ("SGD", "SGD", {"momentum": 0.875, "nesterov": True}),
]


def make(name, stock_name, options):
    """Makes the optimizer of this package and Keras' own, for all rows.

    Args:
        name: A class here.
        stock_name: A class of Keras.
        options: Arguments of both.
    """
    own = {"sparse_beta_1": options["beta_1"]} if name == "LazyAdam" else {}
    return (
        getattr(optimizers, name)(0.125, **options, **own),
        getattr(keras.optimizers, stock_name)(0.125, **options),
    )
