"""The optimizers whose step the ops of a training step can make themselves."""

import re

import keras
import tensorflow as tf

from tf_hsm import optimizers
from tf_hsm.optimizers import _sparse_update
from tf_hsm.runtime import library, private_keras, private_optimizer
from tf_hsm.runtime.variables import variable_of

_EXPORTED = [getattr(optimizers, name) for name in optimizers.__all__]
_RULES = library.allowed_values("ResourceTfHsmTrainStep", "rule")
# By the name that a layer takes for the optimizer.
_OPTIMIZERS = {
    re.sub("(?<=[a-z])(?=[A-Z])", "_", optimizer.__name__).lower(): optimizer
    for rule in _RULES
    for optimizer in _EXPORTED
    if getattr(optimizer, "_rule_name", None) == rule
}

_NOT_DECAYED = "not_decayed"


def get(optimizer):
    """Returns the optimizer that a name, a config or an optimizer stands for.

    A name may have any case, as "SGD" and "LazyAdam" have.

    Raises:
      TypeError: it is no optimizer of `tf_hsm.optimizers`.
      ValueError: a name is unknown, or what is asked of the optimizer needs the
        gradient of all weights at once, which the step in place never has.
    """
    if isinstance(optimizer, str):
        name = optimizer.replace("_", "").lower()
        kinds = {kind.__name__.lower(): kind for kind in _OPTIMIZERS.values()}
        if name not in kinds:
            raise ValueError(
                f"optimizer must be one of {', '.join(_OPTIMIZERS)} or one of "
                f"tf_hsm.optimizers, but is {optimizer!r}"
            )
        optimizer = kinds[name]()
    elif isinstance(optimizer, dict):
        if "class_name" not in optimizer:
            raise ValueError(
                'optimizer is a config without "class_name", with keys '
                f"{list(optimizer)}; give that of keras.optimizers.serialize"
            )
        names = optimizer.get(_NOT_DECAYED)
        optimizer = keras.optimizers.deserialize(
            {k: v for k, v in optimizer.items() if k != _NOT_DECAYED}
        )
        if names is not None:
            optimizer.exclude_from_weight_decay(var_names=[names])
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
        "use_ema",
        "gradient_accumulation_steps",
        "loss_scale_factor",
        *optimizer._not_in_place,
    ):
        if getattr(optimizer, name, None):
            raise ValueError(
                f"optimizer: {name} is not possible in an update in place; "
                "leave it out, or compile the model with this optimizer"
            )
    return optimizer


def config_of(optimizer):
    """Returns what `get` takes to make an optimizer of the same arguments.

    It is the config of Keras, and the names that are excluded from weight
    decay, which Keras leaves out.
    """
    config = keras.optimizers.serialize(optimizer)
    names = private_optimizer.names_not_decayed(optimizer)
    return config if names is None else {**config, _NOT_DECAYED: names}


def rule_of(optimizer):
    """Returns the `Rule` of the optimizer's next step, in float64."""
    # Adam's correction is a number of its own first. Another order of the
    # products would round differently.
    rule = optimizer._rule(tf.constant(1, tf.float64))
    # A layer's autocast would make a 16-bit tensor of the rate.
    with private_keras.no_autocast():
        rate = tf.cast(optimizer.learning_rate, tf.float64)
    decay = rate * optimizer.weight_decay if optimizer.weight_decay else None
    return rule._replace(rate=rate * rule.rate, decay=decay)


def has_schedule(optimizer):
    """Returns whether a learning rate follows a schedule or a function."""
    rate = optimizer.learning_rate
    # A rate that is a number is a variable of the optimizer.
    return all(variable is not rate for variable in optimizer.variables)


def has_decay(optimizer, variable):
    """Returns whether the weight decay of an optimizer applies to a variable.

    Args:
      optimizer: one that `get` has returned.
      variable: one that the optimizer was built with, or None.
    """
    if variable is None or not optimizer.weight_decay:
        return False
    # A layer's autocast would make a 16-bit tensor of the variable.
    with private_keras.no_autocast():
        return private_optimizer.has_decay(optimizer, variable)


def can_step_on_rows(optimizer, variable):
    """Whether `step_on_rows` is possible: see `_sparse_update`."""
    return _sparse_update.is_possible(*_with_slots(optimizer, variable))


def step_on_rows(optimizer, variable, gradient, rule, seed=None):
    """Makes a step on the rows that a gradient names.

    Args:
      optimizer: one that `get` has returned, built with the variable.
      variable: `[N, ...]`.
      gradient: `tf.IndexedSlices`; rows may repeat.
      rule: of the step, as `rule_of` has returned it.
      seed: of stochastic rounding, a scalar int64; None to round to nearest.

    Returns:
      The operation; None in eager mode.
    """
    decays = has_decay(optimizer, variable)
    variable, slots = _with_slots(optimizer, variable)
    return _sparse_update.update(variable, slots, gradient, rule, decays, seed)


def _with_slots(optimizer, variable):
    # A layer's autocast would make 16-bit tensors of the slots.
    with private_keras.no_autocast():
        slots = optimizer.slots(variable)
        variable, *slots = map(variable_of, [variable, *slots])
    return variable, slots
