"""What a head on several devices sends through the network."""

from tf_hsm import distribute
from tf_hsm.estimation.part import Part, Work


def check_replicas(replicas, shards, options):
    """Checks that so many replicas can have a head with so many shards.

    Args:
      replicas: how many there are.
      shards: over how many devices the head is cut.
      options: the `TreeOptions` of the head.

    Raises:
      ValueError: these are different numbers, or the head has no optimizer of
        its own.
    """
    if options.optimizer is None:
        raise ValueError(
            "a head over replicas updates its own rows: give "
            'head_optimizer, for example "rowwise_adagrad"'
        )
    if replicas != shards:
        raise ValueError(
            f"replicas is {replicas}, but the head is cut over devices: shards "
            f"is {shards}; give both the same number, or leave out one of them"
        )


def part(name, setting, network, num_classes, vectors, replicas):
    """Returns the `Part` of the bytes for examples.

    With replicas, each sends its examples to the shards of other replicas, and
    sends back results for as many examples of these, in the mean. Otherwise the
    device of the body sends all examples to shards.

    Args:
      name: of the head.
      setting: the `Setting` of a replica, or of the device of the body.
      network: bytes a second out of the device, and into it.
      num_classes: N.
      vectors: pairs: how many examples have their label in a shard, and the
        width of the vectors that the shard takes.
      replicas: how many there are; None for a body on one device.
    """
    sent = milliseconds = 0.0
    for examples, width in vectors:
        step = distribute.Step(
            width=width,
            dtype=setting.compute_dtype,
            network=network,
            on_replicas=replicas is not None,
        )
        if replicas is not None:
            examples *= (replicas - 1) / replicas
            milliseconds += step.exchange_milliseconds(
                examples, examples, num_classes
            )
        wire = step.wire_bytes(examples, num_classes)
        sent += wire
        if replicas is None:
            milliseconds += step.wire_milliseconds(wire)
    uncounted = (
        "the padding of what travels between processes, up to the largest part",
    )
    return Part(
        f"{name} network",
        "network",
        forward=Work(0, sent / 2),
        backward=Work(0, sent / 2),
        seconds=lambda _: milliseconds / 1000,
        uncounted=() if replicas is None else uncounted,
    )
