"""Warnings about a `compile` or `fit` that trains a head badly but runs.

A layer gives each warning once, in its first training step.
"""

import inspect
import math
import warnings

import keras
import tensorflow as tf

from tf_hsm import optimizers
from tf_hsm.optimizers._row_optimizer import RowOptimizer
from tf_hsm.runtime import private_keras, private_optimizer

# Numbers of a head's tables from which Keras' Adam at least doubles a step:
# two_level trees, width 64, a batch of 400, two cores. 1.9 million took 1.3
# times as long as with LazyAdam, 6.4 million 1.9 times, 64 million 4.2 times.
MANY_NUMBERS = 1 << 22

_LINEAR = (keras.optimizers.SGD,)
_SETTERS = (
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ReduceLROnPlateau,
)


def warn(model, head):
    """Warns of optimizers and callbacks that do not fit a head.

    Args:
      model: the compiled model that trains the head.
      head: a built layer of `tf_hsm.layers`.
    """
    if not head.trainable:
        return
    optimizer = model.optimizer
    texts = []
    if head.in_place.trains(head):
        texts.append(_about_callbacks(head))
    elif optimizer is not None:
        texts.append(_about_replicas(optimizer, head))
        texts.append(_about_dense_work(optimizer, head))
        texts.append(_about_exchange(optimizer, head))
    given = vars(head).setdefault("_advice_given", set())
    for text in texts:
        if text is not None and text not in given:
            given.add(text)
            warnings.warn(f"{head.name}: {text}", UserWarning, stacklevel=2)


def _about_replicas(optimizer, head):
    del head
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    inner = _inner(optimizer)
    if replicas == 1 or not _is_of_keras(inner) or type(inner) in _LINEAR:
        return None
    name = type(inner).__name__
    return (
        f"Keras' {name} takes the sparse gradient of each of the {replicas} "
        "replicas by itself, so that training differs from training on one "
        f"replica; compile with {_instead_of(name)}, which sums the rows of "
        "all replicas first"
    )


def _about_dense_work(optimizer, head):
    numbers = _numbers(head)
    name = _with_dense_work(optimizer)
    if numbers < MANY_NUMBERS or name is None:
        return None
    if getattr(head, "tied_to", None) is not None:
        return None  # Each step has a gradient of all rows.
    fetched = ""
    if is_on_devices(head):
        fetched = ", and fetches these tables from their devices"
    if name == "LossScaleOptimizer" and isinstance(
        _inner(optimizer), RowOptimizer
    ):
        return (
            f"Keras' LossScaleOptimizer reads all {numbers:,} numbers of this "
            f"layer's tables at every step{fetched}; compile with tf_hsm."
            "optimizers.LossScaleOptimizer(optimizer)"
        )
    own, with_own = "", ""
    if "optimizer" in inspect.signature(type(head)).parameters:
        own = (
            ", or give the layer an optimizer of its own, "
            'optimizer="rowwise_adagrad"'
        )
        with_own = ", and 24 ms with an optimizer of the layer's own"
    return (
        f"Keras' {name} reads and writes all {numbers:,} numbers of this "
        f"layer's tables at every step{fetched}; compile with "
        f"{_instead_of(name)}{own}. For a million rows of 64 numbers a step "
        f"takes 286 ms on two CPU cores with Keras' Adam, 43 ms with "
        f"LazyAdam{with_own}"
    )


def _about_exchange(optimizer, head):
    inner = _inner(optimizer)
    if not is_on_devices(head) or _numbers(head) < MANY_NUMBERS:
        return None
    if not isinstance(inner, RowOptimizer) or not inner.global_clipnorm:
        return None
    return (
        "global_clipnorm fetches the gradients of all touched rows from the "
        "devices at every step, since it needs their common norm; leave it "
        "out, or give the layer an optimizer of its own, "
        'optimizer="rowwise_adagrad"'
    )


def _about_callbacks(head):
    callbacks = private_keras.callbacks_of_fit()
    if any(getattr(c, "sets_rates_of_heads", False) for c in callbacks):
        return None
    names = [type(c).__name__ for c in callbacks if isinstance(c, _SETTERS)]
    if not names:
        return None
    if private_optimizer.has_schedule(head.optimizer):
        return None
    own = type(head.optimizer).__name__
    return (
        f"{names[0]} sets the learning rate of the model's optimizer alone, "
        f"and not that of this layer's own {own}; list tf_hsm.callbacks."
        f"FollowLearningRate(factor) after {names[0]}"
    )


def _inner(optimizer):
    """The optimizer within one that scales the loss."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _is_of_keras(optimizer):
    return type(optimizer).__module__.split(".")[0] == "keras"


def _with_dense_work(optimizer):
    """The name of an optimizer of Keras that works on all rows, or None."""
    inner = _inner(optimizer)
    if inner is not optimizer and not isinstance(
        optimizer, optimizers.LossScaleOptimizer
    ):
        return "LossScaleOptimizer"
    if not _is_of_keras(inner):
        return None
    asked = (
        "momentum",
        "weight_decay",
        "use_ema",
        "gradient_accumulation_steps",
        "global_clipnorm",
        "clipvalue",
    )
    is_plain = type(inner) is keras.optimizers.SGD and not any(
        getattr(inner, name, None) for name in asked
    )
    return None if is_plain else type(inner).__name__


def _instead_of(name):
    """What to write in place of an optimizer of Keras."""
    if name in ("SGD", "Adagrad", "RMSprop", "Lion"):
        return f"tf_hsm.optimizers.{name}"
    return "tf_hsm.optimizers.LazyAdam"


def _numbers(head):
    return sum(math.prod(v.shape) for v in head.row_variables())


def is_on_devices(head):
    """Whether parts of a layer are on devices of their own."""
    return bool(getattr(head, "devices", None)) or head.plan is not None
