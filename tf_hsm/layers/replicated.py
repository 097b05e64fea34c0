"""Heads with a shard on each replica of a strategy."""

from tf_hsm.distribute.plan_devices import devices_of_replicas, replicas_here
from tf_hsm.runtime.replicas import copies_of


def is_over_replicas(layer):
    """Whether a head of this package has a shard on each replica."""
    return layer._on_replicas


def num_replicas(layer):
    """Returns how many replicas have the shards or tails of a head."""
    if layer.plan is not None:
        return len(layer.plan.shards)
    return len(layer._places.devices)


def check_optimizer(layer, optimizer):
    """Checks the argument `optimizer` of a layer with `devices="replicas"`.

    Raises:
      ValueError: there is none, and the weights are not quantized.
    """
    if optimizer is None and layer.quantization_mode is None:
        raise ValueError(
            'devices="replicas" needs an optimizer of the layer\'s own, '
            "which makes the step of each shard on its replica; give the "
            'layer one, for example optimizer="rowwise_adagrad"'
        )


def check_replicas(layer, made_for):
    """Checks that a layer is built where it and its optimizer are made.

    Args:
      layer: the layer.
      made_for: the names of the devices of the replicas when it was made.

    Raises:
      ValueError: the strategy has other replicas; the optimizer has one count
        of steps for all replicas; or the rows are float16.
    """
    if layer.variable_dtype == "float16":
        raise ValueError(
            f"{layer.name}: weights over replicas must be float32, float64 or "
            "bfloat16, but are float16, in which small steps would be lost"
        )
    devices = devices_of_replicas()
    if made_for != devices:
        raise ValueError(
            f"{layer.name} is made for {', '.join(made_for)}, but the "
            f"replicas are on {', '.join(devices)}; make the layer and the "
            "model within strategy.scope()"
        )
    if layer.quantization_mode is not None:
        if len(devices) != len(replicas_here()):
            raise ValueError(
                f"{layer.name}: weights in {layer.quantization_mode} are for "
                "the replicas of one process; restore the head in one process"
            )
        return
    copies = copies_of(layer.optimizer.iterations)
    if len(copies) != len(replicas_here()):
        raise ValueError(
            f"{layer.name}: its optimizer was not made for {len(devices)} "
            "replicas; make the optimizer within strategy.scope() too"
        )
