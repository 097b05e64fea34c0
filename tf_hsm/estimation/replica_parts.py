"""Data parallel training: what travels between copies of a model."""

import keras

from tf_hsm import _checks
from tf_hsm._compiled_model import is_on_devices
from tf_hsm._units import read_amount
from tf_hsm.cost.gradient_costs import exchanged_bytes
from tf_hsm.estimation.result import Replicas
from tf_hsm.layers.head_layer import HeadLayer
from tf_hsm.layers.replicated import is_over_replicas, num_replicas
from tf_hsm.runtime import private_keras


def count_of(replicas, given):
    """Returns the number of replicas, which a head over replicas also has.

    Args:
      replicas: the argument of the user.
      given: the bodies and heads of the user, Keras layers among them.
    """
    replicas = _checks.check_int("replicas", replicas, 1)
    for head in _heads_on_devices(given):
        if is_over_replicas(head):
            count = num_replicas(head)
            if replicas not in (1, count):
                raise ValueError(
                    f"replicas is {replicas}, but {head.name} is over {count} "
                    "replicas: make it within the strategy's scope, or leave "
                    "out replicas"
                )
            replicas = count
        elif replicas > 1:
            raise ValueError(
                f"replicas is {replicas}, but the head is cut over devices by "
                "their names; leave out replicas, or give the layer devices="
                '"replicas"'
            )
    return replicas


def _heads_on_devices(given):
    """The heads on several devices of Keras models and layers, a list."""
    return [
        layer
        for model in given
        if isinstance(model, keras.layers.Layer)
        for layer in private_keras.layers_of(model)
        if isinstance(layer, HeadLayer) and is_on_devices(layer)
    ]


def spread(parts, count, network):
    """Returns the `Replicas` of a model; None for one device."""
    network = read_amount("network", network, "B")
    if count == 1:
        return None
    sent = sum(
        exchanged_bytes(part.gradient_bytes, count, is_sparse=part.is_sparse)
        for part in parts
    )
    return Replicas(count, network, sent)
