"""The optimizers whose step the ops of a training step can make themselves."""

import re

import keras
import tensorflow as tf

from tf_hsm import optimizers
from tf_hsm.runtime import private_tensorflow

_EXPORTED = [getattr(optimizers, name) for name in optimizers.__all__]
_RULES = private_tensorflow.allowed_values("ResourceTfHsmTrainStep", "rule")
# By the name that a layer takes for the optimizer.
_OPTIMIZERS = {
    re.sub("(?<=[a-z])(?=[A-Z])", "_", optimizer.__name__).lower(): optimizer
    for rule in _RULES
    for optimizer in _EXPORTED
    if getattr(optimizer, "_rule_name", None) == rule
}


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
        if "class_name" not in optimizer:
            raise ValueError(
                'optimizer is a config without "class_name", with keys '
                f"{list(optimizer)}; give that of keras.optimizers.serialize"
            )
        optimizer = keras.optimizers.deserialize(optimizer)
    if type(optimizer) not in _OPTIMIZERS.values():
        *names, last = (c.__name__ for c in _OPTIMIZERS.values())
        raise TypeError(
            f"optimizer must be a {', '.join(names)} or {last} of "
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
    """Returns the `Rule` of the optimizer's next step, in float64."""
    # Adam's correction is a number of its own first. Another order of the
    # products would round differently.
    rule = optimizer._rule(tf.constant(1, tf.float64))
    rate = tf.cast(optimizer.learning_rate, tf.float64)
    return rule._replace(rate=rate * rule.rate)
