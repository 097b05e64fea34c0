"""The optimizers whose step the in-place train step can do itself."""

from typing import NamedTuple

import keras
import tensorflow as tf

from tf_hsm import optimizers

# By the name that a layer takes for the optimizer.
_OPTIMIZERS = {
    "sgd": optimizers.SGD,
    "adagrad": optimizers.Adagrad,
    "rowwise_adagrad": optimizers.RowwiseAdagrad,
    "lazy_adam": optimizers.LazyAdam,
}
_RULES = {
    optimizers.SGD: "sgd",
    optimizers.Adagrad: "adagrad",
    optimizers.RowwiseAdagrad: "rowwise_adagrad",
    optimizers.LazyAdam: "adam",
}


class UpdateRule(NamedTuple):
    """What the op takes of an optimizer."""

    name: str
    hyperparameters: tf.Tensor  # [4], float64


def get(optimizer):
    """Returns the optimizer that a name, a config or an optimizer stands for.

    Raises:
      TypeError: it is no optimizer of `tf_hsm.optimizers`.
      ValueError: a name is unknown, or what is asked of the optimizer needs the
        gradient of all weights at once, which the step in place never has.
    """
    if isinstance(optimizer, str):
        if optimizer not in _OPTIMIZERS:
            raise ValueError(
                f"optimizer must be one of {', '.join(_OPTIMIZERS)} or one of "
                f"tf_hsm.optimizers, but is {optimizer!r}"
            )
        optimizer = _OPTIMIZERS[optimizer]()
    elif isinstance(optimizer, dict):
        optimizer = keras.optimizers.deserialize(optimizer)
    if type(optimizer) not in _RULES:
        raise TypeError(
            "optimizer must be a SGD, Adagrad, RowwiseAdagrad or LazyAdam of "
            f"tf_hsm.optimizers, but is {type(optimizer).__name__}"
        )
    for name in (
        "clipnorm",
        "global_clipnorm",
        "clipvalue",
        "weight_decay",
        "use_ema",
        "gradient_accumulation_steps",
        "loss_scale_factor",
        "momentum",
        "amsgrad",
    ):
        if getattr(optimizer, name, None):
            raise ValueError(
                f"optimizer: {name} is not possible in an update in place; "
                "leave it out, or compile the model with this optimizer"
            )
    return optimizer


def rule_of(optimizer):
    """Returns the `UpdateRule` of the optimizer's next step."""
    rate = tf.cast(optimizer.learning_rate, tf.float64)
    beta_1 = beta_2 = 0.0
    if isinstance(optimizer, optimizers.LazyAdam):
        beta_1, beta_2 = optimizer.beta_1, optimizer.beta_2
        step = tf.cast(optimizer.iterations + 1, tf.float64)
        rate *= tf.sqrt(1 - beta_2**step) / (1 - beta_1**step)
    epsilon = getattr(optimizer, "epsilon", 0.0)
    others = tf.constant([beta_1, beta_2, epsilon], tf.float64)
    return UpdateRule(_RULES[type(optimizer)], tf.concat([[rate], others], 0))
