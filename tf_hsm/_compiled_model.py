"""Checks of the losses, metrics and optimizers of a compiled model.

A head checks it when the model calls the head, before anything moved.
"""

import inspect
import math
import warnings

import keras
import tensorflow as tf

from tf_hsm import optimizers
from tf_hsm.optimizers._row_optimizer import RowOptimizer
from tf_hsm.runtime import private_keras, replicas

# Numbers of a head's tables from which Keras' Adam at least doubles a step:
# two_level trees, width 64, a batch of 400, two cores. 1.9 million took 1.3
# times as long as with LazyAdam, 6.4 million 1.9 times, 64 million 4.2 times.
MANY_NUMBERS = 1 << 22

_LINEAR = (keras.optimizers.SGD,)


def check(model, head, heads):
    """Checks the losses and metrics of a compiled model that calls a head.

    Losses and metrics that come from a file are bound to the head.

    Args:
      model: the compiled model.
      head: the head.
      heads: all heads of the model.

    Raises:
      ValueError: the head's output has a loss or a metric of Keras; or a loss
        or a metric belongs to the head of another model.
    """
    for one in _flat(private_keras.compiled_with(model)):
        reference = getattr(one, "reference", None)
        # Another head of the model checks what is of its output alone.
        if reference is not None and (
            reference.name is not None
            or one in _given_for_output(model, head.name)
        ):
            reference.check_belongs(head, heads, model, one)
    names = [
        getattr(given, "name", getattr(given, "__name__", given))
        for given in _given_for_output(model, head.name)
        if _is_of_keras(given)
    ]
    if names:
        raise ValueError(
            f"{head.name}: compile has {', '.join(names)}, which would compare "
            "labels with the hidden vectors, or the losses, that the head "
            "returns; use loss=head.loss and the metrics of "
            "tf_hsm.metrics, such as weighted_metrics="
            "[tf_hsm.metrics.TopKAccuracy(head, 1)]; metrics=[] drops the "
            "metrics of an earlier compile"
        )


def check_steps(head, model):
    """Checks that a head can make steps in place.

    Args:
      head: a head with an optimizer of its own.
      model: the model that has called the head, or None.

    Raises:
      ValueError: there are several replicas; or the model's optimizer
        accumulates or averages.
    """
    count = tf.distribute.get_strategy().num_replicas_in_sync
    if count > 1 and not head._on_replicas:
        raise ValueError(
            f"{head.name}: its own optimizer updates one copy of the weights, "
            f"but there are {count} replicas; leave out the layer's "
            "optimizer, or give a HierarchicalSoftmax or AdaptiveSoftmax "
            'devices="replicas", which spreads its rows over the replicas'
        )
    if count > 1 and replicas.context() is None:
        raise ValueError(
            f"{head.name}: training needs the replicas; call the layer in the "
            "function that strategy.run takes"
        )
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    for name in ("gradient_accumulation_steps", "use_ema"):
        if getattr(optimizer, name, None):
            raise ValueError(
                f"{head.name}: its own optimizer makes a step for each batch, "
                f"where {name} of the model's optimizer has no effect; leave "
                "that out, or the layer's optimizer"
            )


def _given_for_output(model, name):
    """Returns the losses and metrics that `compile` has for an output.

    Args:
      model: a compiled model.
      name: the name of the layer that made the output. A model that does not
        name its outputs has none: a layer after the head may make the output.
    """
    names = private_keras.output_names_of(model)
    found = []
    for given in private_keras.compiled_with(model):
        if isinstance(given, dict):
            given = given.get(name) if name in names else None
        elif isinstance(given, (list, tuple)) and len(given) == len(names) > 1:
            given = given[names.index(name)] if name in names else None
        elif name not in names:
            given = None
        found += _flat(given)
    return found


def _flat(given):
    return [one for one in keras.tree.flatten(given) if one is not None]


def _is_of_keras(given):
    """Returns whether a loss, a metric or a class is Keras', not a user's."""
    if isinstance(given, str):
        return True
    if isinstance(given, (keras.metrics.Metric, keras.losses.Loss)):
        given = type(given)
        if given is keras.metrics.MeanMetricWrapper:  # of a function
            return False
    return getattr(given, "__module__", "").split(".")[0] == "keras"


def warn(model, head):
    """Warns of optimizers that do not fit a head; of each once.

    Args:
      model: the compiled model that trains the head.
      head: a built layer of `tf_hsm.layers`.
    """
    optimizer = model.optimizer
    if isinstance(optimizer, RowOptimizer) and not optimizer.global_clipnorm:
        return
    if optimizer is None or not head.trainable or head.in_place.trains(head):
        return
    # Another one may use another optimizer.
    if type(model).train_step is not keras.Model.train_step:
        return
    texts = [
        _about_replicas(optimizer, head),
        _about_dense_work(optimizer, head),
        _about_exchange(optimizer, head),
    ]
    given = vars(head).setdefault("_advice_given", set())
    for text in texts:
        if text is not None and text not in given:
            given.add(text)
            warnings.warn(f"{head.name}: {text}", UserWarning, stacklevel=2)


def _about_replicas(optimizer, head):
    del head
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    inner = _inner(optimizer)
    if replicas == 1 or not _is_of_keras(type(inner)) or type(inner) in _LINEAR:
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
    instead = _instead_of(name)
    if name == "LossScaleOptimizer":
        if isinstance(_inner(optimizer), RowOptimizer):
            return (
                f"Keras' LossScaleOptimizer reads all {numbers:,} numbers of "
                f"this layer's tables at every step{fetched}; compile with "
                "tf_hsm.optimizers.LossScaleOptimizer(optimizer)"
            )
        inner = type(_inner(optimizer)).__name__
        name = f"LossScaleOptimizer around {inner}"
        instead = (
            f"tf_hsm.optimizers.LossScaleOptimizer({_instead_of(inner)}(...))"
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
        f"{instead}{own}. For a million rows of 64 numbers a step "
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


def _inner(optimizer):
    """The optimizer within one that scales the loss."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _with_dense_work(optimizer):
    """The name of an optimizer of Keras that works on all rows, or None."""
    inner = _inner(optimizer)
    if inner is not optimizer and not isinstance(
        optimizer, optimizers.LossScaleOptimizer
    ):
        return "LossScaleOptimizer"
    if not _is_of_keras(type(inner)):
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
    """Returns what to write in place of an optimizer of Keras."""
    if name in ("SGD", "Adagrad", "RMSprop", "Lion"):
        return f"tf_hsm.optimizers.{name}"
    return "tf_hsm.optimizers.LazyAdam"


def _numbers(head):
    return sum(math.prod(v.shape) for v in head.row_variables())


def is_on_devices(head):
    """Whether parts of a layer are on devices of their own."""
    return bool(getattr(head, "devices", None)) or head.plan is not None
